//! Using an action: creates the whole plan or nothing, freezes its inputs, and one key creates one
//! plan.

use std::collections::BTreeSet;
use std::sync::Arc;

use cleveragents_definitions::ActionDraft;
use cleveragents_domain::automation::ProfileSource;
use cleveragents_domain::{
    AbsolutePath, ActionState, BaseSource, BuiltInProfile, DecisionType, EventKind, InvariantScope,
    InvariantScopeKind, Plan, Position, ProfileName, RepositoryFile, ResourcePath, StreamId,
    TrustState,
};
use cleveragents_engine::lifecycle::{ActionChoice, LifecycleError, UseActionRequest};
use cleveragents_engine::trust::{RepositoryAction, TrustRegistry};
use cleveragents_integration_tests::lifecycle_samples::{invariant, profile, project};
use cleveragents_integration_tests::samples::name;
use cleveragents_integration_tests::store_access::{events, read, run_concurrently, write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::system::SystemIds;
use cleveragents_ports::{ProfileRow, StoreError, StoreOperation};

use super::fixture::{
    LifecycleFixture, count_rows, draft, draft_named, request, store_error, store_project,
};

contract! {
    a_plan_is_created_with_root_rules_and_events,
    a_refused_request_leaves_nothing,
    the_most_specific_profile_is_used,
    a_profile_is_frozen,
    a_key_with_an_old_fingerprint_still_matches,
    a_repeated_key_creates_one_plan,
    concurrent_requests_with_one_key_get_one_plan,
    concurrent_single_uses_have_one_winner,
    an_action_that_is_given_need_not_be_registered,
    a_repository_action_needs_consent_and_only_tightens,
    concurrent_given_single_uses_have_one_winner,
    a_given_action_that_is_archived_is_not_used,
    the_actions_texts_are_rendered_and_frozen,
}

fn request_for_action(text: &str) -> UseActionRequest {
    UseActionRequest {
        action: ActionChoice::Registered(name(text)),
        ..request()
    }
}

fn a_plan_is_created_with_root_rules_and_events(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let rules = [
            invariant("log everything", InvariantScope::Global, 0),
            invariant("keep main", InvariantScope::Project(name("local/shop")), 1),
        ];
        write(&fixture.opened.store, move |tx| {
            rules.iter().try_for_each(|rule| tx.insert_invariant(rule))
        })
        .await;
        let plan = fixture.new_plan().await;
        let id = plan.identity.plan_id;
        assert_eq!(fixture.plan(id).await, plan);
        assert_eq!(plan.position, Position::new());
        assert_eq!(plan.brief.description, "Lint main");
        assert_eq!(plan.brief.definition_of_done, "main is clean");
        assert_eq!(plan.brief.arguments["depth"], 3);
        let frozen: Vec<_> = plan.brief.invariants.iter().map(|it| it.source).collect();
        assert_eq!(
            frozen,
            [InvariantScopeKind::Plan, InvariantScopeKind::Action]
        );

        let decisions = read(&fixture.opened.store, move |tx| tx.decisions_of(id)).await;
        assert_eq!(decisions[0].decision_type, DecisionType::PromptDefinition);
        assert_eq!(plan.decision_root_id, Some(decisions[0].decision_id));
        let enforced: BTreeSet<_> = decisions[1..]
            .iter()
            .map(|it| (it.decision_type, it.chosen_option.as_str()))
            .collect();
        let wanted = ["log everything", "no new dependencies", "keep main"];
        let wanted = wanted.map(|text| (DecisionType::InvariantEnforced, text));
        assert_eq!(enforced, BTreeSet::from(wanted));
        for decision in &decisions[1..] {
            assert_eq!(decision.parent_decision_id, plan.decision_root_id);
        }

        let story = events(&fixture.opened.store, StreamId::Plan(id)).await;
        let kinds: Vec<_> = story.iter().map(|event| event.kind.clone()).collect();
        let wanted = [
            EventKind::PlanCreated,
            EventKind::DecisionCreated,
            EventKind::InvariantEnforced,
            EventKind::InvariantEnforced,
            EventKind::InvariantEnforced,
            EventKind::InvariantReconciled,
        ];
        assert_eq!(kinds, wanted);
        assert!(story.iter().all(|event| event.actor == "eva"));
    });
}

fn a_refused_request_leaves_nothing(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let (service, actions) = (&fixture.lifecycle, &fixture.actions);
        actions
            .create(draft_named("local/old"), "eva")
            .await
            .unwrap();
        actions.archive(name("local/old"), "eva").await.unwrap();
        let before = count_rows(&fixture.opened.store).await;
        for (request, part) in invalid_requests() {
            let said = service.use_action(request).await.unwrap_err().to_string();
            assert!(said.contains(part), "{said}");
        }
        assert_eq!(count_rows(&fixture.opened.store).await, before);
    });
}

/// Invalid requests, and a part of each error message.
fn invalid_requests() -> [(UseActionRequest, &'static str); 9] {
    let shop = name("local/shop");
    let projects = |projects| UseActionRequest {
        projects,
        ..request()
    };
    let arguments = |given: &[&str]| UseActionRequest {
        arguments: given.iter().map(ToString::to_string).collect(),
        ..request()
    };
    let of_profile = UseActionRequest {
        automation_profile: Some(ProfileName::Custom(name("team/none"))),
        ..request()
    };
    let without_words = UseActionRequest {
        invariants: vec![" ".to_owned()],
        ..request()
    };
    [
        (
            projects(vec![shop.clone(), name("local/none")]),
            "no project `local/none`",
        ),
        (projects(Vec::new()), "at least one project"),
        (
            projects(vec![shop.clone(), shop]),
            "local/shop is named twice",
        ),
        (request_for_action("local/old"), "`local/old` is archived"),
        (request_for_action("local/none"), "no action `local/none`"),
        (arguments(&[]), "branch"),
        (arguments(&["branch=main", "depth=deep"]), "depth"),
        (of_profile, "no automation profile `team/none`"),
        (without_words, ""),
    ]
}

fn the_most_specific_profile_is_used(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        // The sample project names `cautious`; the first project that names a profile decides.
        let careful = project("local/careful", 0);
        write(&fixture.opened.store, move |tx| tx.insert_project(&careful)).await;
        store_project(&fixture.opened.store, "local/other").await;
        let with_profile = draft("automation_profile: trusted\n");
        let action = cleveragents_definitions::ActionDraft {
            name: name("local/trusted"),
            ..with_profile
        };
        fixture.actions.create(action, "eva").await.unwrap();
        let both = vec![name("local/other"), name("local/careful")];
        let own = Some(ProfileName::BuiltIn(BuiltInProfile::Manual));
        let asked = [
            (request(), BuiltInProfile::Supervised, ProfileSource::Global),
            (
                UseActionRequest {
                    projects: both.clone(),
                    ..request()
                },
                BuiltInProfile::Cautious,
                ProfileSource::Project,
            ),
            (
                UseActionRequest {
                    projects: both.clone(),
                    ..request_for_action("local/trusted")
                },
                BuiltInProfile::Trusted,
                ProfileSource::Action,
            ),
            (
                UseActionRequest {
                    projects: both,
                    automation_profile: own,
                    ..request_for_action("local/trusted")
                },
                BuiltInProfile::Manual,
                ProfileSource::Plan,
            ),
        ];
        for (request, wanted, source) in asked {
            let plan = fixture.lifecycle.use_action(request).await.unwrap();
            assert_eq!(plan.brief.automation_profile, wanted.profile());
            assert_eq!(plan.brief.automation_source, source);
        }
    });
}

fn a_profile_is_frozen(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let first = profile("team/own");
        let stored = first.clone();
        write(&fixture.opened.store, move |tx| tx.insert_profile(&stored)).await;
        let request = UseActionRequest {
            automation_profile: Some(first.name.clone()),
            ..request()
        };
        let plan = fixture.lifecycle.use_action(request.clone()).await.unwrap();
        let mut row = ProfileRow {
            profile: first.clone(),
            version: 1,
        };
        row.profile.require_sandbox = !first.require_sandbox;
        let later = row.profile.clone();
        write(&fixture.opened.store, move |tx| tx.replace_profile(&row)).await;
        let found = fixture.plan(plan.identity.plan_id).await;
        assert_eq!(found.brief.automation_profile, first);
        let new = fixture.lifecycle.use_action(request).await.unwrap();
        assert_eq!(new.brief.automation_profile, later);
    });
}

fn request_with_key(key: &str) -> UseActionRequest {
    UseActionRequest {
        idempotency_key: Some(key.to_owned()),
        max_usd: None,
        destination: None,
        ..request()
    }
}

fn a_repeated_key_creates_one_plan(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let service = &fixture.lifecycle;
        // A failed request does not use up its key.
        let bad = UseActionRequest {
            arguments: Vec::new(),
            ..request_with_key("k")
        };
        service.use_action(bad).await.unwrap_err();
        let first = service.use_action(request_with_key("k")).await.unwrap();
        let before = count_rows(&fixture.opened.store).await;
        assert_eq!(
            service.use_action(request_with_key("k")).await.unwrap(),
            first
        );
        let other = UseActionRequest {
            arguments: vec!["branch=other".to_owned()],
            ..request_with_key("k")
        };
        let on_worktree = UseActionRequest {
            base: BaseSource::Worktree,
            ..request_with_key("k")
        };
        for other in [other, on_worktree] {
            match service.use_action(other).await {
                Err(LifecycleError::KeyReused { plan }) => assert_eq!(*plan, first),
                answer => panic!("{answer:?} instead of KeyReused"),
            }
        }
        assert_eq!(count_rows(&fixture.opened.store).await, before);
        let second = service.use_action(request_with_key("l")).await.unwrap();
        assert_ne!(second.identity.plan_id, first.identity.plan_id);
    });
}

/// A key stored by an earlier version of this program, with a fingerprint without a version.
fn a_key_with_an_old_fingerprint_still_matches(backend: Backend) {
    const OLD: &str = "a8ba451ed16a4320797c27a974430f664c6da93f417ee7d59da7b01edb92b22b";
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let service = &fixture.lifecycle;
        let first = service.use_action(request()).await.unwrap();
        let row = serde_json::json!({"plan": first, "request": OLD});
        let operation = StoreOperation::keyed("k", "plan.use");
        let written = fixture
            .opened
            .store
            .write(operation, move |_| Ok(row.clone()));
        let _: serde_json::Value = written.await.map_err(|error: StoreError| error).unwrap();
        let before = count_rows(&fixture.opened.store).await;
        assert_eq!(
            service.use_action(request_with_key("k")).await.unwrap(),
            first
        );
        let other = UseActionRequest {
            arguments: vec!["branch=other".to_owned()],
            ..request_with_key("k")
        };
        match service.use_action(other).await {
            Err(LifecycleError::KeyReused { plan }) => assert_eq!(*plan, first),
            answer => panic!("{answer:?} instead of KeyReused"),
        }
        assert_eq!(count_rows(&fixture.opened.store).await, before);
    });
}

fn concurrent_requests_with_one_key_get_one_plan(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let plans: Vec<Plan> = run_concurrently(16, |_| {
            let service = fixture.lifecycle.clone();
            async move { service.use_action(request_with_key("k")).await.unwrap() }
        })
        .await;
        assert!(plans.iter().all(|plan| *plan == plans[0]));
        let all = read(&fixture.opened.store, |tx| tx.plans()).await;
        assert_eq!(all, [plans[0].clone()]);
    });
}

fn concurrent_single_uses_have_one_winner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let mut once = draft_named("local/once");
        once.reusable = false;
        fixture.actions.create(once, "eva").await.unwrap();
        let answers = run_concurrently(16, |_| {
            let service = fixture.lifecycle.clone();
            async move { service.use_action(request_for_action("local/once")).await }
        })
        .await;
        let won: Vec<Plan> = answers.iter().filter_map(|it| it.clone().ok()).collect();
        assert_eq!(won.len(), 1);
        for answer in answers.into_iter().filter(Result::is_err) {
            match store_error(answer) {
                StoreError::Taken { holder, .. } => assert_eq!(holder, won[0].name.to_string()),
                other => panic!("{other} instead of Taken"),
            }
        }
        let all = read(&fixture.opened.store, |tx| tx.plans()).await;
        assert_eq!(all, won);
    });
}

fn the_actions_texts_are_rendered_and_frozen(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let more = "\
long_description: All of {{ args.branch }}
checks: [{run: 'lint {{ args.branch }}', name: '{{ as it is }}', timeout: 5}]
budget: {usd: 2.5, tokens: 7, wall: 60}
skills: [team/rust]
";
        let asked = UseActionRequest {
            action: ActionChoice::Given(Box::new(draft(more))),
            base: BaseSource::Worktree,
            ..request()
        };
        let brief = fixture.lifecycle.use_action(asked).await.unwrap().brief;
        let long = brief.long_description.as_deref();
        assert_eq!(long, Some("All of main"));
        let check = &brief.checks[0];
        assert_eq!(check.run, "lint main");
        assert_eq!(check.name.as_deref(), Some("{{ as it is }}"));
        assert_eq!((check.timeout, brief.checks.len()), (Some(5), 1));
        let budget = brief.budget;
        assert_eq!(
            (budget.usd, budget.tokens, budget.wall),
            (Some(2.5), Some(7), Some(60))
        );
        assert_eq!(brief.skills, [name("team/rust")]);
        assert_eq!(brief.base, BaseSource::Worktree);
        let usual = fixture.new_plan().await.brief;
        assert_eq!((usual.base, usual.checks.len()), (BaseSource::Head, 0));
    });
}

fn an_action_that_is_given_need_not_be_registered(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let given = UseActionRequest {
            action: ActionChoice::Given(Box::new(draft_named("local/given"))),
            ..request()
        };
        let plan = fixture.lifecycle.use_action(given).await.unwrap();
        assert_eq!(plan.brief.action_name, name("local/given"));
        let missing = store_error(fixture.actions.action(name("local/given")).await);
        assert!(matches!(missing, StoreError::NotFound { .. }));
    });
}

fn request_for_repository_action(hash: &str) -> UseActionRequest {
    UseActionRequest {
        action: ActionChoice::Repository(Box::new(RepositoryAction {
            draft: ActionDraft {
                automation_profile: Some(ProfileName::BuiltIn(BuiltInProfile::FullAuto)),
                ..draft_named("local/theirs")
            },
            file: RepositoryFile {
                repository: AbsolutePath::from_bytes("/srv/shop").unwrap(),
                path: ResourcePath::from_bytes(".agents/actions/theirs.yaml").unwrap(),
                hash: hash.to_owned(),
            },
        })),
        ..request()
    }
}

fn a_repository_action_needs_consent_and_only_tightens(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let before = count_rows(&fixture.opened.store).await;
        let refused = fixture
            .lifecycle
            .use_action(request_for_repository_action("1"))
            .await;
        let Err(LifecycleError::NotTrusted { file, state }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(state, TrustState::FirstUse);
        assert_eq!(count_rows(&fixture.opened.store).await, before);
        let registry = TrustRegistry::new(fixture.opened.store.clone(), Arc::new(SystemIds));
        registry.record(*file, "a user").await.unwrap();

        let plan = fixture
            .lifecycle
            .use_action(request_for_repository_action("1"))
            .await
            .unwrap();
        assert_eq!(
            plan.brief.automation_profile,
            BuiltInProfile::Supervised.profile()
        );
        assert_eq!(plan.brief.automation_source, ProfileSource::Global);
        let changed = fixture
            .lifecycle
            .use_action(request_for_repository_action("2"))
            .await;
        assert!(matches!(
            changed,
            Err(LifecycleError::NotTrusted {
                state: TrustState::Changed,
                ..
            })
        ));
        let tightened = UseActionRequest {
            default_profile: ProfileName::BuiltIn(BuiltInProfile::FullAuto),
            repository_profile: Some(ProfileName::BuiltIn(BuiltInProfile::Manual)),
            ..request_for_repository_action("1")
        };
        let plan = fixture.lifecycle.use_action(tightened).await.unwrap();
        assert_eq!(
            plan.brief.automation_profile,
            BuiltInProfile::Manual.profile()
        );
        let chosen = UseActionRequest {
            automation_profile: Some(ProfileName::BuiltIn(BuiltInProfile::Ci)),
            repository_profile: Some(ProfileName::BuiltIn(BuiltInProfile::Manual)),
            ..request_for_repository_action("1")
        };
        let plan = fixture.lifecycle.use_action(chosen).await.unwrap();
        assert_eq!(plan.brief.automation_profile, BuiltInProfile::Ci.profile());
    });
}

fn request_for_draft(draft: ActionDraft) -> UseActionRequest {
    UseActionRequest {
        action: ActionChoice::Given(Box::new(draft)),
        ..request()
    }
}

fn concurrent_given_single_uses_have_one_winner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let once = ActionDraft {
            reusable: false,
            ..draft_named("local/once")
        };
        // A refused request has used nothing.
        let wrong = UseActionRequest {
            arguments: Vec::new(),
            ..request_for_draft(once.clone())
        };
        fixture.lifecycle.use_action(wrong).await.unwrap_err();
        let answers = run_concurrently(64, |_| {
            let (service, once) = (fixture.lifecycle.clone(), once.clone());
            async move { service.use_action(request_for_draft(once)).await }
        })
        .await;
        let won: Vec<Plan> = answers.iter().filter_map(|it| it.clone().ok()).collect();
        assert_eq!(won.len(), 1);
        for answer in answers.into_iter().filter(Result::is_err) {
            match store_error(answer) {
                StoreError::Taken { holder, .. } => assert_eq!(holder, won[0].name.to_string()),
                other => panic!("{other} instead of Taken"),
            }
        }
        assert_eq!(read(&fixture.opened.store, |tx| tx.plans()).await, won);
        // Different content is a different action, and a reusable action is not counted.
        let changed = ActionDraft {
            description: "Lint once more".to_owned(),
            ..once.clone()
        };
        fixture
            .lifecycle
            .use_action(request_for_draft(changed.clone()))
            .await
            .unwrap();
        store_error(
            fixture
                .lifecycle
                .use_action(request_for_draft(changed))
                .await,
        );
        for _ in 0..2 {
            let often = ActionDraft {
                reusable: true,
                ..once.clone()
            };
            fixture
                .lifecycle
                .use_action(request_for_draft(often))
                .await
                .unwrap();
        }
    });
}

fn a_given_action_that_is_archived_is_not_used(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let archived = ActionDraft {
            state: ActionState::Archived,
            ..draft_named("local/old")
        };
        let refused = store_error(
            fixture
                .lifecycle
                .use_action(request_for_draft(archived))
                .await,
        );
        assert!(matches!(refused, StoreError::Archived { .. }), "{refused}");
        assert!(
            read(&fixture.opened.store, |tx| tx.plans())
                .await
                .is_empty()
        );
    });
}

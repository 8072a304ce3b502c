//! Using an action: all of the plan or nothing, what holds then is frozen, and a key makes one.

use std::collections::BTreeSet;
use std::sync::Arc;

use cleveragents_domain::automation::ProfileSource;
use cleveragents_domain::{
    AbsolutePath, ActionState, Base, BuiltIn, DecisionType, EventKind, Plan, Position, ProfileName,
    RepositoryFile, ResourcePath, Scope, ScopeKind, StreamId, TrustState,
};
use cleveragents_engine::definitions::ActionDraft;
use cleveragents_engine::lifecycle::{ActionChoice, LifecycleError, UseRequest};
use cleveragents_engine::ports::{ProfileRow, StoreError};
use cleveragents_engine::system::SystemIds;
use cleveragents_engine::trust::{RepositoryAction, TrustRegistry};
use cleveragents_proof::lifecycle_samples::{invariant, profile, project};
use cleveragents_proof::samples::name;
use cleveragents_proof::verbs::{events, read, together, write};
use cleveragents_proof::{Backend, Place, block_on, contract};

use super::scene::{Scene, census, draft, named, refusal, request, store_project};

contract! {
    a_plan_comes_with_its_root_its_rules_and_its_events,
    a_refused_request_leaves_nothing,
    the_profile_is_the_plans_the_actions_the_projects_or_the_global_one,
    a_profile_is_frozen,
    a_key_makes_one_plan,
    sixteen_with_one_key_get_one_plan,
    a_single_use_action_is_used_by_one_of_sixteen,
    an_action_that_is_given_need_not_be_registered,
    an_action_of_a_repository_needs_consent_to_its_content_and_only_tightens,
    a_given_single_use_action_is_used_by_one_of_sixty_four,
    a_given_action_that_is_archived_is_not_used,
    what_the_action_says_of_the_work_is_frozen_and_filled_in,
}

fn with_action(text: &str) -> UseRequest {
    UseRequest {
        action: ActionChoice::Registered(name(text)),
        ..request()
    }
}

fn a_plan_comes_with_its_root_its_rules_and_its_events(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let rules = [
            invariant("log everything", Scope::Global, 0),
            invariant("keep main", Scope::Project(name("local/shop")), 1),
        ];
        write(&scene.opened.store, move |unit| {
            rules
                .iter()
                .try_for_each(|rule| unit.insert_invariant(rule))
        })
        .await;
        let plan = scene.new_plan().await;
        let id = plan.identity.plan_id;
        assert_eq!(scene.plan(id).await, plan);
        assert_eq!(plan.position, Position::new());
        assert_eq!(plan.brief.description, "Lint main");
        assert_eq!(plan.brief.definition_of_done, "main is clean");
        assert_eq!(plan.brief.arguments["depth"], 3);
        let frozen: Vec<_> = plan.brief.invariants.iter().map(|it| it.source).collect();
        assert_eq!(frozen, [ScopeKind::Plan, ScopeKind::Action]);

        let decisions = read(&scene.opened.store, move |unit| unit.decisions_of(id)).await;
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

        let story = events(&scene.opened.store, StreamId::Plan(id)).await;
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
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let service = &scene.lifecycle;
        service
            .create_action(named("local/old"), "eva")
            .await
            .unwrap();
        service
            .archive_action(name("local/old"), "eva")
            .await
            .unwrap();
        let before = census(&scene.opened.store).await;
        for (request, part) in refused() {
            let said = service.use_action(request).await.unwrap_err().to_string();
            assert!(said.contains(part), "{said}");
        }
        assert_eq!(census(&scene.opened.store).await, before);
    });
}

/// Requests with something wrong in each, and a part of what is said of it.
fn refused() -> [(UseRequest, &'static str); 9] {
    let shop = name("local/shop");
    let projects = |projects| UseRequest {
        projects,
        ..request()
    };
    let arguments = |given: &[&str]| UseRequest {
        arguments: given.iter().map(ToString::to_string).collect(),
        ..request()
    };
    let of_profile = UseRequest {
        automation_profile: Some(ProfileName::Custom(name("team/none"))),
        ..request()
    };
    let without_words = UseRequest {
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
        (with_action("local/old"), "`local/old` is archived"),
        (with_action("local/none"), "no action `local/none`"),
        (arguments(&[]), "branch"),
        (arguments(&["branch=main", "depth=deep"]), "depth"),
        (of_profile, "no automation profile `team/none`"),
        (without_words, ""),
    ]
}

fn the_profile_is_the_plans_the_actions_the_projects_or_the_global_one(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        // The sample project wants `cautious`; the first project that wants any decides.
        let careful = project("local/careful", 0);
        write(&scene.opened.store, move |unit| {
            unit.insert_project(&careful)
        })
        .await;
        store_project(&scene.opened.store, "local/other").await;
        let with_profile = draft("automation_profile: trusted\n");
        let action = cleveragents_engine::definitions::ActionDraft {
            name: name("local/trusted"),
            ..with_profile
        };
        scene.lifecycle.create_action(action, "eva").await.unwrap();
        let both = vec![name("local/other"), name("local/careful")];
        let own = Some(ProfileName::BuiltIn(BuiltIn::Manual));
        let asked = [
            (request(), BuiltIn::Supervised, ProfileSource::Global),
            (
                UseRequest {
                    projects: both.clone(),
                    ..request()
                },
                BuiltIn::Cautious,
                ProfileSource::Project,
            ),
            (
                UseRequest {
                    projects: both.clone(),
                    ..with_action("local/trusted")
                },
                BuiltIn::Trusted,
                ProfileSource::Action,
            ),
            (
                UseRequest {
                    projects: both,
                    automation_profile: own,
                    ..with_action("local/trusted")
                },
                BuiltIn::Manual,
                ProfileSource::Plan,
            ),
        ];
        for (request, wanted, source) in asked {
            let plan = scene.lifecycle.use_action(request).await.unwrap();
            assert_eq!(plan.brief.automation_profile, wanted.profile());
            assert_eq!(plan.brief.automation_source, source);
        }
    });
}

fn a_profile_is_frozen(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let first = profile("team/own");
        let stored = first.clone();
        write(&scene.opened.store, move |unit| {
            unit.insert_profile(&stored)
        })
        .await;
        let request = UseRequest {
            automation_profile: Some(first.name.clone()),
            ..request()
        };
        let plan = scene.lifecycle.use_action(request.clone()).await.unwrap();
        let mut row = ProfileRow {
            profile: first.clone(),
            version: 1,
        };
        row.profile.require_sandbox = !first.require_sandbox;
        let later = row.profile.clone();
        write(&scene.opened.store, move |unit| unit.replace_profile(&row)).await;
        let found = scene.plan(plan.identity.plan_id).await;
        assert_eq!(found.brief.automation_profile, first);
        let new = scene.lifecycle.use_action(request).await.unwrap();
        assert_eq!(new.brief.automation_profile, later);
    });
}

fn keyed(key: &str) -> UseRequest {
    UseRequest {
        idempotency_key: Some(key.to_owned()),
        max_usd: None,
        ..request()
    }
}

fn a_key_makes_one_plan(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let service = &scene.lifecycle;
        // A request that failed has not used its key.
        let bad = UseRequest {
            arguments: Vec::new(),
            ..keyed("k")
        };
        service.use_action(bad).await.unwrap_err();
        let first = service.use_action(keyed("k")).await.unwrap();
        let before = census(&scene.opened.store).await;
        assert_eq!(service.use_action(keyed("k")).await.unwrap(), first);
        let other = UseRequest {
            arguments: vec!["branch=other".to_owned()],
            ..keyed("k")
        };
        let on_worktree = UseRequest {
            base: Base::Worktree,
            ..keyed("k")
        };
        for other in [other, on_worktree] {
            match service.use_action(other).await {
                Err(LifecycleError::KeyReused { plan }) => assert_eq!(*plan, first),
                answer => panic!("{answer:?} instead of KeyReused"),
            }
        }
        assert_eq!(census(&scene.opened.store).await, before);
        let second = service.use_action(keyed("l")).await.unwrap();
        assert_ne!(second.identity.plan_id, first.identity.plan_id);
    });
}

fn sixteen_with_one_key_get_one_plan(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let plans: Vec<Plan> = together(16, |_| {
            let service = scene.lifecycle.clone();
            async move { service.use_action(keyed("k")).await.unwrap() }
        })
        .await;
        assert!(plans.iter().all(|plan| *plan == plans[0]));
        let all = read(&scene.opened.store, |unit| unit.plans()).await;
        assert_eq!(all, [plans[0].clone()]);
    });
}

fn a_single_use_action_is_used_by_one_of_sixteen(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let mut once = named("local/once");
        once.reusable = false;
        scene.lifecycle.create_action(once, "eva").await.unwrap();
        let answers = together(16, |_| {
            let service = scene.lifecycle.clone();
            async move { service.use_action(with_action("local/once")).await }
        })
        .await;
        let won: Vec<Plan> = answers.iter().filter_map(|it| it.clone().ok()).collect();
        assert_eq!(won.len(), 1);
        for answer in answers.into_iter().filter(Result::is_err) {
            match refusal(answer) {
                StoreError::Taken { holder, .. } => assert_eq!(holder, won[0].name.to_string()),
                other => panic!("{other} instead of Taken"),
            }
        }
        let all = read(&scene.opened.store, |unit| unit.plans()).await;
        assert_eq!(all, won);
    });
}

fn what_the_action_says_of_the_work_is_frozen_and_filled_in(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let more = "\
long_description: All of {{ args.branch }}
checks: [{run: 'lint {{ args.branch }}', name: '{{ as it is }}', timeout: 5}]
budget: {usd: 2.5, tokens: 7, wall: 60}
skills: [team/rust]
";
        let asked = UseRequest {
            action: ActionChoice::Given(Box::new(draft(more))),
            base: Base::Worktree,
            ..request()
        };
        let brief = scene.lifecycle.use_action(asked).await.unwrap().brief;
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
        assert_eq!(brief.base, Base::Worktree);
        let usual = scene.new_plan().await.brief;
        assert_eq!((usual.base, usual.checks.len()), (Base::Head, 0));
    });
}

fn an_action_that_is_given_need_not_be_registered(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let given = UseRequest {
            action: ActionChoice::Given(Box::new(named("local/given"))),
            ..request()
        };
        let plan = scene.lifecycle.use_action(given).await.unwrap();
        assert_eq!(plan.brief.action_name, name("local/given"));
        let missing = refusal(scene.lifecycle.action(name("local/given")).await);
        assert!(matches!(missing, StoreError::NotFound { .. }));
    });
}

fn an_action_of_a_repository_needs_consent_to_its_content_and_only_tightens(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let of_repository = |hash: &str| UseRequest {
            action: ActionChoice::Repository(Box::new(RepositoryAction {
                draft: ActionDraft {
                    automation_profile: Some(ProfileName::BuiltIn(BuiltIn::FullAuto)),
                    ..named("local/theirs")
                },
                file: RepositoryFile {
                    repository: AbsolutePath::from_bytes("/srv/shop").unwrap(),
                    path: ResourcePath::from_bytes(".agents/actions/theirs.yaml").unwrap(),
                    hash: hash.to_owned(),
                },
            })),
            ..request()
        };
        let before = census(&scene.opened.store).await;
        let refused = scene.lifecycle.use_action(of_repository("1")).await;
        let Err(LifecycleError::NotTrusted { file, state }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(state, TrustState::FirstUse);
        assert_eq!(census(&scene.opened.store).await, before);
        let registry = TrustRegistry::new(scene.opened.store.clone(), Arc::new(SystemIds));
        registry.record(*file, "a user").await.unwrap();

        let plan = scene
            .lifecycle
            .use_action(of_repository("1"))
            .await
            .unwrap();
        assert_eq!(plan.brief.automation_profile, BuiltIn::Supervised.profile());
        assert_eq!(plan.brief.automation_source, ProfileSource::Global);
        let changed = scene.lifecycle.use_action(of_repository("2")).await;
        assert!(matches!(
            changed,
            Err(LifecycleError::NotTrusted {
                state: TrustState::Changed,
                ..
            })
        ));
        let tightened = UseRequest {
            default_profile: ProfileName::BuiltIn(BuiltIn::FullAuto),
            repository_profile: Some(ProfileName::BuiltIn(BuiltIn::Manual)),
            ..of_repository("1")
        };
        let plan = scene.lifecycle.use_action(tightened).await.unwrap();
        assert_eq!(plan.brief.automation_profile, BuiltIn::Manual.profile());
        let chosen = UseRequest {
            automation_profile: Some(ProfileName::BuiltIn(BuiltIn::Ci)),
            repository_profile: Some(ProfileName::BuiltIn(BuiltIn::Manual)),
            ..of_repository("1")
        };
        let plan = scene.lifecycle.use_action(chosen).await.unwrap();
        assert_eq!(plan.brief.automation_profile, BuiltIn::Ci.profile());
    });
}

fn given(draft: ActionDraft) -> UseRequest {
    UseRequest {
        action: ActionChoice::Given(Box::new(draft)),
        ..request()
    }
}

fn a_given_single_use_action_is_used_by_one_of_sixty_four(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let once = ActionDraft {
            reusable: false,
            ..named("local/once")
        };
        // A request that is refused has used nothing.
        let wrong = UseRequest {
            arguments: Vec::new(),
            ..given(once.clone())
        };
        scene.lifecycle.use_action(wrong).await.unwrap_err();
        let answers = together(64, |_| {
            let (service, once) = (scene.lifecycle.clone(), once.clone());
            async move { service.use_action(given(once)).await }
        })
        .await;
        let won: Vec<Plan> = answers.iter().filter_map(|it| it.clone().ok()).collect();
        assert_eq!(won.len(), 1);
        for answer in answers.into_iter().filter(Result::is_err) {
            match refusal(answer) {
                StoreError::Taken { holder, .. } => assert_eq!(holder, won[0].name.to_string()),
                other => panic!("{other} instead of Taken"),
            }
        }
        assert_eq!(read(&scene.opened.store, |unit| unit.plans()).await, won);
        // What says something else is another action, and one that is reusable is not counted.
        let changed = ActionDraft {
            description: "Lint once more".to_owned(),
            ..once.clone()
        };
        scene
            .lifecycle
            .use_action(given(changed.clone()))
            .await
            .unwrap();
        refusal(scene.lifecycle.use_action(given(changed)).await);
        for _ in 0..2 {
            let often = ActionDraft {
                reusable: true,
                ..once.clone()
            };
            scene.lifecycle.use_action(given(often)).await.unwrap();
        }
    });
}

fn a_given_action_that_is_archived_is_not_used(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let archived = ActionDraft {
            state: ActionState::Archived,
            ..named("local/old")
        };
        let refused = refusal(scene.lifecycle.use_action(given(archived)).await);
        assert!(matches!(refused, StoreError::Archived { .. }), "{refused}");
        assert!(
            read(&scene.opened.store, |unit| unit.plans())
                .await
                .is_empty()
        );
    });
}

//! Invariants through their service: recorded, all or nothing, and none is lost under concurrency.

use std::collections::BTreeSet;
use std::sync::Arc;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{EventKind, Invariant, InvariantScope, StreamId};
use cleveragents_engine::invariants::{
    EffectiveRules, InvariantService, InvariantTarget, NewRule, RuleError, RuleOrigin,
};
use cleveragents_integration_tests::lifecycle_samples::invariant;
use cleveragents_integration_tests::samples::{name, plan_id};
use cleveragents_integration_tests::store_access::{events, read, run_concurrently, write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::system::SystemIds;
use cleveragents_ports::{StoreError, StoreHandle};

use super::fixture::{LifecycleFixture, request};

contract! {
    a_rule_is_journaled_in_its_scopes_stream,
    a_refused_rule_leaves_nothing,
    many_scopes_are_all_or_nothing,
    the_strongest_rule_wins_and_lists_shadowed_ones,
    concurrent_rule_changes_lose_nothing,
    ten_thousand_rules_are_effective,
}

fn service(store: &StoreHandle) -> InvariantService {
    InvariantService::new(store.clone(), Arc::new(SystemIds))
}

fn rule(text: &str, scope: InvariantScope) -> NewRule {
    NewRule {
        text: text.to_owned(),
        scopes: vec![scope],
        non_overridable: false,
    }
}

async fn add(service: &InvariantService, text: &str, scope: InvariantScope) -> Invariant {
    let mut added = service.add(rule(text, scope), "eva").await.unwrap();
    assert_eq!(added.len(), 1);
    added.remove(0)
}

fn shop() -> InvariantScope {
    InvariantScope::Project(name("local/shop"))
}

fn lint() -> InvariantScope {
    InvariantScope::Action(name("local/lint"))
}

async fn count(store: &StoreHandle, stream: StreamId, kind: EventKind) -> usize {
    let story = events(store, stream).await;
    story.iter().filter(|event| event.kind == kind).count()
}

fn a_rule_is_journaled_in_its_scopes_stream(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let store = &fixture.opened.store;
        let rules = service(store);
        let plan = fixture.new_plan().await.identity.plan_id;
        let scopes = [
            InvariantScope::Global,
            shop(),
            lint(),
            InvariantScope::Plan(plan),
        ];
        let mut newest_first = Vec::new();
        for scope in scopes {
            let stream = match scope {
                InvariantScope::Plan(plan) => StreamId::Plan(plan),
                _ => StreamId::System,
            };
            let before = count(store, stream, EventKind::InvariantAdded).await;
            let added = add(&rules, "keep it", scope.clone()).await;
            let after = count(store, stream, EventKind::InvariantAdded).await;
            assert_eq!(after, before + 1);
            let listed = rules.list(Some(scope)).await.unwrap();
            assert_eq!(listed, std::slice::from_ref(&added));
            newest_first.insert(0, added);
        }
        assert_eq!(rules.list(None).await.unwrap(), newest_first);
        for rule in newest_first {
            let id = rule.id.to_string();
            let fragment = id[id.len() - 8..].to_lowercase().parse().unwrap();
            assert_eq!(rules.remove(fragment, "eva").await.unwrap(), rule);
            let gone = rules.remove(id.parse().unwrap(), "eva").await;
            assert!(
                matches!(gone, Err(RuleError::Store(StoreError::NotFound { .. }))),
                "{gone:?}"
            );
        }
        assert!(rules.list(None).await.unwrap().is_empty());
        for (stream, number) in [(StreamId::System, 3), (StreamId::Plan(plan), 1)] {
            let removed = count(store, stream, EventKind::InvariantRemoved).await;
            assert_eq!(removed, number);
        }
    });
}

fn a_refused_rule_leaves_nothing(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let rules = service(&fixture.opened.store);
        add(&rules, "Never push", InvariantScope::Global).await;
        let fixed = NewRule {
            non_overridable: true,
            ..rule("x", shop())
        };
        for (refused, part) in [
            (rule(" \n", InvariantScope::Global), "needs a text"),
            (
                rule(&"x".repeat(4097), InvariantScope::Global),
                "4096 bytes",
            ),
            (fixed, "only a global"),
            (
                rule("  NEVER\tpush ", InvariantScope::Global),
                "is taken by",
            ),
            (
                rule("x", InvariantScope::Project(name("local/none"))),
                "no project",
            ),
            (rule("x", InvariantScope::Plan(plan_id())), "no plan"),
        ] {
            let said = rules.add(refused, "eva").await.unwrap_err().to_string();
            assert!(said.contains(part), "{said}");
        }
        for scope in [
            InvariantScope::Project(name("local/none")),
            InvariantScope::Plan(plan_id()),
        ] {
            assert!(rules.list(Some(scope)).await.is_err());
        }
        for recipient in [
            InvariantTarget::Plan(plan_id()),
            InvariantTarget::FuturePlans {
                projects: vec![name("local/none")],
                action: None,
            },
        ] {
            assert!(rules.effective_rules(recipient).await.is_err());
        }
        assert_eq!(rules.list(None).await.unwrap().len(), 1);
        let message = count(
            &fixture.opened.store,
            StreamId::System,
            EventKind::InvariantAdded,
        )
        .await;
        assert_eq!(message, 1);
    });
}

fn many_scopes_are_all_or_nothing(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let rules = service(&fixture.opened.store);
        let mut plans: Vec<PlanId> = Vec::new();
        for _ in 0..3 {
            plans.push(fixture.new_plan().await.identity.plan_id);
        }
        let for_all = |text: &str, backwards: bool| {
            let mut scopes: Vec<InvariantScope> =
                plans.iter().copied().map(InvariantScope::Plan).collect();
            if backwards {
                scopes.reverse();
            }
            // Duplicates count once.
            scopes.push(InvariantScope::Plan(plans[0]));
            NewRule {
                scopes,
                ..rule(text, InvariantScope::Global)
            }
        };
        let mut one_missing = for_all("a", false);
        one_missing.scopes.push(InvariantScope::Plan(plan_id()));
        rules.add(one_missing, "eva").await.unwrap_err();
        assert!(rules.list(None).await.unwrap().is_empty());
        // Whatever order they name the plans in, they do not deadlock.
        let answers = run_concurrently(16, |number| {
            let (rules, new) = (
                rules.clone(),
                for_all(&format!("{number}"), number % 2 == 0),
            );
            async move { rules.add(new, "eva").await.map(|added| added.len()) }
        })
        .await;
        for answer in answers {
            assert_eq!(answer.unwrap(), 3);
        }
        for plan in plans {
            let stream = StreamId::Plan(plan);
            let message = count(&fixture.opened.store, stream, EventKind::InvariantAdded).await;
            assert_eq!(message, 16);
        }
    });
}

fn the_strongest_rule_wins_and_lists_shadowed_ones(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let rules = service(&fixture.opened.store);
        let plan = fixture.new_plan().await.identity.plan_id;
        let global = add(&rules, "log everything", InvariantScope::Global).await;
        add(&rules, "Keep  MAIN", InvariantScope::Global).await;
        add(&rules, "No new dependencies", shop()).await;
        let own = add(&rules, "be quick", InvariantScope::Plan(plan)).await;
        let fixed = NewRule {
            non_overridable: true,
            ..rule("never push", InvariantScope::Global)
        };
        rules.add(fixed, "eva").await.unwrap();
        add(&rules, "Never push", InvariantScope::Plan(plan)).await;

        let of_plan = rules
            .effective_rules(InvariantTarget::Plan(plan))
            .await
            .unwrap();
        let wanted = [
            ("never push", RuleOrigin::Added),
            ("be quick", RuleOrigin::Added),
            ("no new dependencies", RuleOrigin::Written),
            ("keep main", RuleOrigin::Written),
            ("log everything", RuleOrigin::Added),
        ];
        assert_eq!(texts(&of_plan), wanted);
        let shadowed: BTreeSet<(&str, &str)> = of_plan
            .shadowed
            .iter()
            .map(|it| {
                let by = &of_plan.rules[it.shadowed_by].invariant.text;
                (it.rule.invariant.text.as_str(), by.as_str())
            })
            .collect();
        let wanted = [
            ("Keep  MAIN", "keep main"),
            ("Never push", "never push"),
            ("No new dependencies", "no new dependencies"),
        ];
        assert_eq!(shadowed, BTreeSet::from(wanted));

        let to_come = InvariantTarget::FuturePlans {
            projects: vec![name("local/shop")],
            action: Some(name("local/lint")),
        };
        let to_come = rules.effective_rules(to_come).await.unwrap();
        let wanted = [
            ("never push", RuleOrigin::Added),
            ("keep {{ args.branch }}", RuleOrigin::Written),
            ("No new dependencies", RuleOrigin::Added),
            ("log everything", RuleOrigin::Added),
            ("Keep  MAIN", RuleOrigin::Added),
        ];
        assert_eq!(texts(&to_come), wanted);
        assert!(to_come.shadowed.is_empty());
        assert!(to_come.rules.iter().all(|rule| rule.invariant != own));
        assert!(to_come.rules.iter().any(|rule| rule.invariant == global));
    });
}

fn texts(effective: &EffectiveRules) -> Vec<(&str, RuleOrigin)> {
    let rules = effective.rules.iter();
    rules
        .map(|rule| (rule.invariant.text.as_str(), rule.origin))
        .collect()
}

/// Sixteen writers add ten rules each and remove every other one, while as many readers list them.
fn concurrent_rule_changes_lose_nothing(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let store = fixture.opened.store.clone();
        let plan = fixture.new_plan().await.identity.plan_id;
        let kept = run_concurrently(32, |number| {
            let rules = service(&store);
            async move {
                let mut kept = Vec::new();
                for step in 0..10 {
                    if number % 2 == 1 {
                        // A list is one snapshot: every rule in it is complete and unique.
                        let seen = rules.list(None).await.unwrap();
                        let ids: BTreeSet<_> = seen.iter().map(|rule| rule.id).collect();
                        assert_eq!(ids.len(), seen.len());
                        rules
                            .effective_rules(InvariantTarget::Plan(plan))
                            .await
                            .unwrap();
                        continue;
                    }
                    let scope = [
                        InvariantScope::Global,
                        shop(),
                        lint(),
                        InvariantScope::Plan(plan),
                    ];
                    let scope = scope[number / 2 % 4].clone();
                    let added = add(&rules, &format!("{number} {step}"), scope).await;
                    match step % 2 {
                        0 => kept.push(added),
                        _ => {
                            let id = added.id.to_string().parse().unwrap();
                            assert_eq!(rules.remove(id, "eva").await.unwrap(), added);
                        }
                    }
                }
                kept
            }
        })
        .await;
        let kept: BTreeSet<String> = kept.iter().flatten().map(|it| it.id.to_string()).collect();
        let there = service(&store).list(None).await.unwrap();
        let there: BTreeSet<String> = there.iter().map(|it| it.id.to_string()).collect();
        assert_eq!((kept.len(), &kept), (80, &there));
        let mut message = (0, 0);
        for stream in [StreamId::System, StreamId::Plan(plan)] {
            message.0 += count(&store, stream, EventKind::InvariantAdded).await;
            message.1 += count(&store, stream, EventKind::InvariantRemoved).await;
        }
        assert_eq!(message, (160, 80));
    });
}

/// The number of concurrent writers.
const WRITERS: usize = 50;

/// Every other rule is the project's.
fn scope_of(number: usize) -> InvariantScope {
    match number % 2 {
        0 => InvariantScope::Global,
        _ => shop(),
    }
}

async fn add_concurrently(service: &InvariantService, total: usize) {
    run_concurrently(WRITERS, |writer| {
        let service = service.clone();
        async move {
            for number in 0..total / WRITERS {
                let text = format!("rule {number} of {writer}");
                add(&service, &text, scope_of(number)).await;
            }
        }
    })
    .await;
}

fn ten_thousand_rules_are_effective(backend: Backend) {
    let rules_in_all = 10_000;
    // Each rule added by itself is a separate commit, which takes time on a server, so most rules
    // are added there in one write.
    let added = match backend {
        Backend::Postgres => 1_000,
        Backend::Memory | Backend::Sqlite => rules_in_all,
    };
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let rules = service(&fixture.opened.store);
        add_concurrently(&rules, added).await;
        write(&fixture.opened.store, move |tx| {
            for number in added..rules_in_all {
                tx.insert_invariant(&Invariant {
                    non_overridable: false,
                    ..invariant(&format!("rule {number}"), scope_of(number), 0)
                })?;
            }
            Ok(())
        })
        .await;
        assert_eq!(rules.list(None).await.unwrap().len(), rules_in_all);
        assert_eq!(
            rules.list(Some(shop())).await.unwrap().len(),
            rules_in_all / 2
        );
        let message = count(
            &fixture.opened.store,
            StreamId::System,
            EventKind::InvariantAdded,
        )
        .await;
        assert_eq!(message, added);
        let plan = fixture.lifecycle.use_action(request()).await.unwrap();
        let id = plan.identity.plan_id;
        let effective = rules
            .effective_rules(InvariantTarget::Plan(id))
            .await
            .unwrap();
        // The project's rules before the global ones, after the plan's and the action's own.
        assert_eq!(effective.rules.len(), rules_in_all + 2);
        assert!(effective.shadowed.is_empty());
        assert_eq!(effective.rules[2].invariant.scope, shop());
        assert_eq!(
            effective.rules[rules_in_all + 1].invariant.scope,
            InvariantScope::Global
        );
        let enforced = read(&fixture.opened.store, move |tx| tx.decisions_of(id)).await;
        assert_eq!(enforced.len(), rules_in_all + 3);
    });
}

//! Decisions: recorded completely by the owner of a run, read back as a tree, explained from their
//! context.

use cleveragents_domain::decision::DecisionError;
use cleveragents_domain::event::payloads::{DecisionCreated, DecisionInfluenced};
use cleveragents_domain::id::DecisionId;
use cleveragents_domain::{Decision, DecisionEdge, DecisionType, EventKind, StreamId};
use cleveragents_engine::decisions::{
    DecisionFailure, ImpactLevel, StoredContext, SupersededVisibility, TreeNode,
};
use cleveragents_engine::lifecycle::LifecycleError;
use cleveragents_integration_tests::lifecycle_samples::{child_decision, root_decision};
use cleveragents_integration_tests::store_access::{events, payload_of, read, write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::{BlobHash, Entity, StoreError};

use super::fixture::LifecycleFixture;
use super::working_plan::{WorkingPlan, all_decisions, choice, strategy};

contract! {
    a_decision_is_recorded_with_context_and_influences,
    an_invalid_decision_is_refused_and_not_stored,
    only_the_owner_of_a_working_plan_decides,
    a_tree_is_read_in_order_and_at_any_depth,
    an_explanation_has_the_path_the_impact_and_the_context,
    influences_may_form_cycles_but_no_self_loops,
}

fn a_decision_is_recorded_with_context_and_influences(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let working_plan = WorkingPlan::start(&fixture).await;
        let (plan, root) = (working_plan.plan, working_plan.root);
        let before = all_decisions(&fixture, plan).await.len();
        let first = working_plan.decide(&fixture, strategy(root, "north")).await;
        let mut second = strategy(first.decision_id, "by train");
        second.influences = vec![root, first.decision_id];
        let second = working_plan.decide(&fixture, second).await;
        let stored = all_decisions(&fixture, plan).await;
        assert_eq!(stored[before..], [first.clone(), second.clone()]);
        assert_eq!(second.sequence_number as usize, before + 2);
        let edges = read(&fixture.opened.store, move |tx| tx.influences_of(plan)).await;
        let to = second.decision_id;
        for from in [root, first.decision_id] {
            assert!(edges.contains(&DecisionEdge { from, to }));
        }
        let snapshot = &second.context_snapshot;
        assert_eq!(snapshot.context_ref.as_ref(), Some(&snapshot.hash));
        assert_eq!(snapshot.resources, ["local/folder"]);
        for (reference, content) in [
            (
                &snapshot.hash,
                "{\"items\":[{\"name\":\"src/cart.rs\",\"text\":\"fn cart() {}\\n\\u0000\\\"ü\\\"\"}],\
                 \"resources\":[\"local/folder\"]}"
                    .as_bytes(),
            ),
            (snapshot.actor_state_ref.as_ref().unwrap(), &[0, 159, 146, 150]),
        ] {
            assert_eq!(*reference, blake3::hash(content).to_hex().to_string());
            let hash: BlobHash = reference.parse().unwrap();
            let kept = read(&fixture.opened.store, move |tx| tx.blob(&hash)).await;
            assert_eq!(kept.as_deref(), Some(content));
        }
        let message = events(&fixture.opened.store, StreamId::Plan(plan)).await;
        let message: Vec<Decision> = message
            .iter()
            .filter(|event| event.kind == EventKind::DecisionCreated)
            .map(|event| payload_of::<DecisionCreated>(event).0)
            .collect();
        assert_eq!(message[message.len() - 2..], [first, second]);
    });
}

#[track_caller]
fn missing_id(answer: Result<impl std::fmt::Debug, DecisionFailure>) -> String {
    match answer {
        Err(DecisionFailure::Lifecycle(LifecycleError::Store(StoreError::NotFound {
            entity: Entity::DecisionOfPlan,
            id,
        }))) => id,
        other => panic!("{other:?} instead of a missing decision"),
    }
}

fn an_invalid_decision_is_refused_and_not_stored(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let working_plan = WorkingPlan::start(&fixture).await;
        let foreign = fixture.new_plan().await.decision_root_id.unwrap();
        let unknown: DecisionId = "01JZZZZZZZ0000000000ABCDEF".parse().unwrap();
        let before = all_decisions(&fixture, working_plan.plan).await;
        let stream = StreamId::Plan(working_plan.plan);
        let message = events(&fixture.opened.store, stream).await.len();
        for other in [foreign, unknown] {
            let record = fixture
                .decisions
                .record(&working_plan.run, strategy(other, "x"));
            assert_eq!(missing_id(record.await), other.to_string());
            let mut influenced = strategy(working_plan.root, "x");
            influenced.influences = vec![working_plan.root, other];
            let record = fixture.decisions.record(&working_plan.run, influenced);
            assert_eq!(missing_id(record.await), other.to_string());
            let edge = DecisionEdge {
                from: working_plan.root,
                to: other,
            };
            let record = fixture.decisions.record_influence(&working_plan.run, edge);
            assert_eq!(missing_id(record.await), other.to_string());
        }
        for (decision_type, error) in [
            (DecisionType::PromptDefinition, "has no parent"),
            (DecisionType::ToolInvocation, "is not made in strategize"),
        ] {
            let wrong = choice(working_plan.root, decision_type, "x");
            let refused = fixture.decisions.record(&working_plan.run, wrong).await;
            let refused = refused.unwrap_err();
            assert!(matches!(refused, DecisionFailure::Misplaced(_)));
            assert!(refused.to_string().contains(error), "{refused}");
        }
        assert_eq!(all_decisions(&fixture, working_plan.plan).await, before);
        assert_eq!(events(&fixture.opened.store, stream).await.len(), message);
        let root: DecisionError = DecisionError::RootWithParent;
        assert!(root.to_string().contains("root"));
    });
}

fn only_the_owner_of_a_working_plan_decides(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let working_plan = WorkingPlan::start(&fixture).await;
        let before = all_decisions(&fixture, working_plan.plan).await;
        let successor = fixture.take_over(&working_plan.run).await;
        let late = strategy(working_plan.root, "late");
        let refused = fixture.decisions.record(&working_plan.run, late).await;
        assert!(
            matches!(
                refused,
                Err(DecisionFailure::Lifecycle(LifecycleError::Store(
                    StoreError::LeaseLost { .. }
                )))
            ),
            "{refused:?}"
        );
        fixture
            .lifecycle
            .as_owner(&successor)
            .complete()
            .await
            .unwrap();
        let late = strategy(working_plan.root, "late");
        let refused = fixture
            .decisions
            .record(&successor, late)
            .await
            .unwrap_err();
        assert!(matches!(refused, DecisionFailure::NotProcessing { .. }));
        assert!(refused.to_string().contains("strategize/complete"));
        assert_eq!(all_decisions(&fixture, working_plan.plan).await, before);
    });
}

fn a_tree_is_read_in_order_and_at_any_depth(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let plan = fixture.new_plan().await;
        let (id, root) = (plan.identity.plan_id, plan.decision_root_id.unwrap());
        let depth = 2_000;
        let below = Decision {
            decision_id: root,
            ..root_decision(id)
        };
        let chain = write(&fixture.opened.store, move |tx| {
            let mut chain = vec![below.clone()];
            for _ in 0..depth {
                let next = child_decision(&chain[chain.len() - 1]);
                tx.insert_decision(&next)?;
                chain.push(next);
            }
            let branch = child_decision(&chain[1]);
            tx.insert_decision(&branch)?;
            let hidden = chain[2].decision_id;
            tx.supersede(id, &[hidden])?;
            chain.push(branch);
            Ok(chain)
        })
        .await;
        let tree = fixture
            .decisions
            .tree(id, SupersededVisibility::Shown)
            .await
            .unwrap();
        assert_eq!(tree.superseded, 1);
        // The root's own rules come first, then the chain, then its branches.
        let places: Vec<usize> = chain[1..]
            .iter()
            .map(|one| {
                let same = |node: &TreeNode| node.decision.decision_id == one.decision_id;
                tree.nodes.iter().position(same).unwrap()
            })
            .collect();
        assert!(places.is_sorted(), "{places:?}");
        assert_eq!(tree.nodes[places[depth - 1]].depth, depth);
        assert_eq!(tree.nodes[places[depth]].depth, 2);
        let tree = fixture
            .decisions
            .tree(id, SupersededVisibility::Hidden)
            .await
            .unwrap();
        assert_eq!(tree.superseded, 1);
        let deepest = tree.nodes.iter().map(|node| node.depth).max();
        assert_eq!(deepest, Some(depth - 1), "what is hidden takes no level");
        let parents: Vec<_> = tree.nodes.iter().map(|node| node.parent).collect();
        assert!(!parents.contains(&Some(chain[2].decision_id)));
    });
}

fn an_explanation_has_the_path_the_impact_and_the_context(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let working_plan = WorkingPlan::start(&fixture).await;
        let first = working_plan
            .decide(&fixture, strategy(working_plan.root, "north"))
            .await;
        let second = strategy(first.decision_id, "by train");
        let second = working_plan.decide(&fixture, second).await;
        let mut third = strategy(working_plan.root, "with a map");
        third.influences = vec![second.decision_id];
        let third = working_plan.decide(&fixture, third).await;
        let fragment = first.decision_id.short().parse().unwrap();
        let explained = fixture.decisions.explain(fragment).await.unwrap();
        assert_eq!(explained.decision, first);
        assert_eq!(
            explained.decisions,
            all_decisions(&fixture, working_plan.plan).await.len()
        );
        assert_eq!(
            explained.impact.downstream,
            [second.decision_id, third.decision_id]
        );
        assert_eq!(explained.impact.level(), ImpactLevel::Medium);
        let StoredContext::Kept { text, items } = &explained.context else {
            panic!("{:?} instead of a context", explained.context);
        };
        assert_eq!(items[0].name, "src/cart.rs");
        assert_eq!(
            blake3::hash(text.as_bytes()).to_hex().to_string(),
            first.context_snapshot.hash
        );
        let fragment = second.decision_id.to_string().parse().unwrap();
        let explained = fixture.decisions.explain(fragment).await.unwrap();
        let path: Vec<_> = explained
            .path_to_root
            .iter()
            .map(|it| it.decision_id)
            .collect();
        assert_eq!(path, [first.decision_id, working_plan.root]);
        let fragment = third.decision_id.to_string().parse().unwrap();
        let leaf = fixture.decisions.explain(fragment).await.unwrap();
        assert_eq!(leaf.impact.level(), ImpactLevel::Low);
        let fragment = working_plan.root.to_string().parse().unwrap();
        let root = fixture.decisions.explain(fragment).await.unwrap();
        assert_eq!(root.context, StoredContext::None);
        assert_eq!(root.path_to_root, []);
    });
}

fn influences_may_form_cycles_but_no_self_loops(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let working_plan = WorkingPlan::start(&fixture).await;
        let a = working_plan
            .decide(&fixture, strategy(working_plan.root, "a"))
            .await;
        let mut b = strategy(working_plan.root, "b");
        b.influences = vec![a.decision_id];
        let b = working_plan.decide(&fixture, b).await;
        let back = DecisionEdge {
            from: b.decision_id,
            to: a.decision_id,
        };
        fixture
            .decisions
            .record_influence(&working_plan.run, back)
            .await
            .unwrap();
        let own = DecisionEdge {
            from: a.decision_id,
            to: a.decision_id,
        };
        let refused = fixture
            .decisions
            .record_influence(&working_plan.run, own)
            .await;
        assert!(matches!(
            refused,
            Err(DecisionFailure::SelfInfluence { .. })
        ));
        for (one, other) in [(&a, &b), (&b, &a)] {
            let fragment = one.decision_id.to_string().parse().unwrap();
            let explained = fixture.decisions.explain(fragment).await.unwrap();
            assert_eq!(explained.impact.downstream, [other.decision_id]);
        }
        let message = events(&fixture.opened.store, StreamId::Plan(working_plan.plan)).await;
        let last = message.last().unwrap();
        assert_eq!(last.kind, EventKind::DecisionInfluenced);
        assert_eq!(payload_of::<DecisionInfluenced>(last).0, back);
    });
}

//! Decisions: numbers without gaps, a connected tree, influences within a plan.

use cleveragents_domain::id::{DecisionId, PlanId};
use cleveragents_domain::{Decision, DecisionEdge};
use cleveragents_integration_tests::assertions::{assert_ambiguous, assert_missing, assert_taken};
use cleveragents_integration_tests::lifecycle_samples::{
    child_decision, root_decision, store_sample_plan,
};
use cleveragents_integration_tests::samples::plan_id;
use cleveragents_integration_tests::store_access::{read, run_concurrently, try_write, write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::{Result, StoreHandle};

contract! {
    a_decision_reads_back_in_every_field,
    concurrent_decisions_are_numbered_without_gaps,
    a_parent_must_be_one_of_the_plans_decisions,
    influences_stay_within_a_plan_and_are_deduplicated,
    superseding_counts_only_new_ones,
    a_decision_is_found_by_either_end_of_its_id,
    many_decisions_at_once_follow_each_other,
    concurrent_bulk_decisions_are_numbered_without_gaps,
    bulk_decisions_are_all_or_nothing,
}

async fn insert(store: &StoreHandle, decision: &Decision) -> Result<i64> {
    let decision = decision.clone();
    try_write(store, move |tx| tx.insert_decision(&decision)).await
}

async fn insert_many(store: &StoreHandle, plan: PlanId, many: &[Decision]) -> Result<Vec<i64>> {
    let many = many.to_vec();
    try_write(store, move |tx| tx.insert_decisions(plan, &many)).await
}

/// Returns `count` children of `parent`.
fn children(parent: &Decision, count: usize) -> Vec<Decision> {
    (0..count).map(|_| child_decision(parent)).collect()
}

async fn decisions_of(store: &StoreHandle, plan: PlanId) -> Vec<Decision> {
    read(store, move |tx| tx.decisions_of(plan)).await
}

async fn supersede(store: &StoreHandle, plan: PlanId, ids: Vec<DecisionId>) -> Result<u64> {
    try_write(store, move |tx| tx.supersede(plan, &ids)).await
}

/// A plan with a root and two children.
async fn tree(store: &StoreHandle) -> (PlanId, Vec<Decision>) {
    let plan = store_sample_plan(store).await;
    let root = root_decision(plan);
    let decisions = vec![root.clone(), child_decision(&root), child_decision(&root)];
    for decision in &decisions {
        insert(store, decision).await.unwrap();
    }
    (plan, decisions_of(store, plan).await)
}

fn a_decision_reads_back_in_every_field(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let plan = store_sample_plan(&opened.store).await;
        let root = root_decision(plan);
        assert_eq!(insert(&opened.store, &root).await.unwrap(), 1);
        let stored = Decision {
            sequence_number: 1,
            ..root.clone()
        };
        let id = root.decision_id;
        assert_eq!(read(&opened.store, move |tx| tx.decision(id)).await, stored);
        assert_eq!(decisions_of(&opened.store, plan).await, [stored]);
        assert_taken(
            insert(&opened.store, &root).await,
            ("the decision id", &id.to_string(), "another decision"),
        );
        let missing = root_decision(plan).decision_id;
        let none = opened.store.read(move |tx| tx.decision(missing)).await;
        assert_missing(none, ("decision", &missing.to_string()));
        let nowhere = root_decision(plan_id());
        assert_missing(
            insert(&opened.store, &nowhere).await,
            ("plan", &nowhere.plan_id.to_string()),
        );
    });
}

fn concurrent_decisions_are_numbered_without_gaps(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let plan = store_sample_plan(&opened.store).await;
        let root = root_decision(plan);
        insert(&opened.store, &root).await.unwrap();
        let places = run_concurrently(16, |_| {
            let (store, root) = (opened.store.clone(), root.clone());
            async move {
                let mut places = Vec::new();
                for _ in 0..10 {
                    places.push(insert(&store, &child_decision(&root)).await.unwrap());
                }
                places
            }
        })
        .await;
        // A caller that inserts sequentially gets increasing numbers.
        for own in &places {
            assert!(own.is_sorted(), "{own:?}");
        }
        let mut all: Vec<i64> = places.concat();
        all.sort_unstable();
        assert_eq!(all, (2..=161).collect::<Vec<i64>>());
        let stored = decisions_of(&opened.store, plan).await;
        let stored: Vec<i64> = stored.iter().map(|each| each.sequence_number).collect();
        assert_eq!(stored, (1..=161).collect::<Vec<i64>>());
    });
}

fn a_parent_must_be_one_of_the_plans_decisions(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (plan, decisions) = tree(&opened.store).await;
        let orphan = child_decision(&child_decision(&decisions[0]));
        let parent = orphan.parent_decision_id.unwrap().to_string();
        assert_missing(
            insert(&opened.store, &orphan).await,
            ("decision of this plan", &parent),
        );
        let elsewhere = Decision {
            plan_id: store_sample_plan(&opened.store).await,
            ..child_decision(&decisions[0])
        };
        let parent = decisions[0].decision_id.to_string();
        assert_missing(
            insert(&opened.store, &elsewhere).await,
            ("decision of this plan", &parent),
        );
        // A refused decision uses no number.
        let next = insert(&opened.store, &child_decision(&decisions[1])).await;
        assert_eq!(next.unwrap(), 4);
        assert_eq!(decisions_of(&opened.store, plan).await.len(), 4);
    });
}

fn influences_stay_within_a_plan_and_are_deduplicated(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let store = &opened.store;
    block_on(async {
        let (plan, decisions) = tree(store).await;
        let (_, others) = tree(store).await;
        let edge = |from: &Decision, to: &Decision| DecisionEdge {
            from: from.decision_id,
            to: to.decision_id,
        };
        let add = |edge| try_write(store, move |tx| tx.add_influence(plan, edge));
        let there = edge(&decisions[1], &decisions[2]);
        let back = edge(&decisions[2], &decisions[1]);
        for edge in [there, back, there] {
            add(edge).await.unwrap();
        }
        let other = others[0].decision_id.to_string();
        for edge in [
            edge(&decisions[0], &others[0]),
            edge(&others[0], &decisions[0]),
        ] {
            assert_missing(add(edge).await, ("decision of this plan", &other));
        }
        let found = read(store, move |tx| tx.influences_of(plan)).await;
        assert_eq!(found.len(), 2);
        assert!(found.contains(&there) && found.contains(&back));
        let elsewhere = others[0].plan_id;
        let none = read(store, move |tx| tx.influences_of(elsewhere)).await;
        assert!(none.is_empty());
    });
}

fn superseding_counts_only_new_ones(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let store = &opened.store;
    block_on(async {
        let (plan, decisions) = tree(store).await;
        let ids: Vec<DecisionId> = decisions.iter().map(|each| each.decision_id).collect();
        let reversed: Vec<DecisionId> = ids.iter().rev().copied().collect();
        // Two opposite orders at once: no deadlock, and each decision is counted once.
        let answers = run_concurrently(8, |number| {
            let store = store.clone();
            let ids = if number % 2 == 0 {
                ids.clone()
            } else {
                reversed.clone()
            };
            async move { supersede(&store, plan, ids).await.unwrap() }
        })
        .await;
        assert_eq!(answers.iter().sum::<u64>(), 3);
        let marked = decisions_of(store, plan).await;
        assert!(marked.iter().all(|each| each.is_superseded));

        let (plan, decisions) = tree(store).await;
        let unknown = vec![decisions[0].decision_id, ids[0]];
        assert_missing(
            supersede(store, plan, unknown).await,
            ("decision of this plan", &ids[0].to_string()),
        );
        let unmarked = decisions_of(store, plan).await;
        assert!(!unmarked.iter().any(|each| each.is_superseded));
        assert_eq!(supersede(store, plan, vec![]).await.unwrap(), 0);
    });
}

fn a_decision_is_found_by_either_end_of_its_id(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let plan = store_sample_plan(&opened.store).await;
        let texts = ["01JAAAAAAA0000000000BBBBBB", "01JAAAAAAZ0000000000DDDDDD"];
        for text in texts {
            let decision = Decision {
                decision_id: text.parse().unwrap(),
                ..root_decision(plan)
            };
            insert(&opened.store, &decision).await.unwrap();
        }
        let find = |fragment: &str| {
            let fragment = fragment.parse().unwrap();
            opened.store.read(move |tx| tx.find_decision(&fragment))
        };
        for (fragment, text) in [
            ("01jaaaaaaz", texts[1]),
            ("bbbb", texts[0]),
            ("00dddddd", texts[1]),
            (texts[0], texts[0]),
        ] {
            let found = find(fragment).await.unwrap();
            assert_eq!(found.decision_id.to_string(), text, "{fragment}");
        }
        assert_ambiguous(find("01ja").await, &texts.map(str::to_owned));
        assert_missing(find("0000").await, ("decision", "0000"));
    });
}

fn many_decisions_at_once_follow_each_other(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let store = &opened.store;
    block_on(async {
        let plan = store_sample_plan(store).await;
        assert!(insert_many(store, plan, &[]).await.unwrap().is_empty());
        let mut many = vec![root_decision(plan)];
        // Some have a parent that is stored in the same call.
        many.extend(children(&many[0], 200));
        many.extend(children(&many[100], 56));
        let places = insert_many(store, plan, &many).await.unwrap();
        assert_eq!(places, (1..=257).collect::<Vec<i64>>());
        for (decision, place) in many.iter_mut().zip(places) {
            decision.sequence_number = place;
        }
        assert_eq!(decisions_of(store, plan).await, many);
        let one = insert(store, &child_decision(&many[7])).await;
        assert_eq!(one.unwrap(), 258);
        let nowhere = plan_id();
        assert_missing(
            insert_many(store, nowhere, &[root_decision(nowhere)]).await,
            ("plan", &nowhere.to_string()),
        );
    });
}

fn concurrent_bulk_decisions_are_numbered_without_gaps(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let plan = store_sample_plan(&opened.store).await;
        let root = root_decision(plan);
        insert(&opened.store, &root).await.unwrap();
        let places = run_concurrently(8, |_| {
            let (store, root) = (opened.store.clone(), root.clone());
            async move {
                let mut places = Vec::new();
                for count in [112, 1, 23] {
                    let many = children(&root, count);
                    places.push(insert_many(&store, plan, &many).await.unwrap());
                }
                places
            }
        })
        .await;
        // Decisions stored together are numbered contiguously.
        let mut all = Vec::new();
        for batch in places.into_iter().flatten() {
            let first = batch[0];
            assert_eq!(batch, (first..).take(batch.len()).collect::<Vec<_>>());
            all.extend(batch);
        }
        all.sort_unstable();
        assert_eq!(all, (2..=8 * 136 + 1).collect::<Vec<i64>>());
        let stored = decisions_of(&opened.store, plan).await;
        let stored: Vec<i64> = stored.iter().map(|each| each.sequence_number).collect();
        assert_eq!(stored, (1..=8 * 136 + 1).collect::<Vec<i64>>());
    });
}

fn bulk_decisions_are_all_or_nothing(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    let store = &opened.store;
    block_on(async {
        let (plan, decisions) = tree(store).await;
        let (elsewhere, others) = tree(store).await;
        // Refused, the error swallowed and the transaction committed: nothing of it is stored.
        let refused = |many: Vec<Decision>| {
            write(store, move |tx| {
                let answer = tx.insert_decisions(plan, &many);
                Ok(answer.map_err(|error| error.to_string()))
            })
        };
        let good = children(&decisions[0], 130);
        let with = |at: usize, bad: Decision| {
            let mut many = good.clone();
            many.insert(at, bad);
            many
        };
        let taken = |id: DecisionId| Decision {
            decision_id: id,
            ..child_decision(&decisions[0])
        };
        let orphan = child_decision(&child_decision(&decisions[0]));
        for (many, said) in [
            (with(120, taken(others[1].decision_id)), "another decision"),
            (with(0, taken(decisions[1].decision_id)), "another decision"),
            (with(130, taken(good[5].decision_id)), "another decision"),
            (with(60, taken(good[5].decision_id)), "another decision"),
            (with(99, orphan), "decision of this plan"),
            (with(3, child_decision(&others[0])), "decision of this plan"),
            // A parent that comes later in the list does not count.
            (with(0, child_decision(&good[0])), "decision of this plan"),
        ] {
            let error = refused(many).await.unwrap_err();
            assert!(error.contains(said), "{error}");
            assert_eq!(decisions_of(store, plan).await, decisions);
        }
        assert_eq!(decisions_of(store, elsewhere).await, others);
        let places = insert_many(store, plan, &good).await.unwrap();
        assert_eq!(places, (4..=133).collect::<Vec<i64>>());
    });
}

//! Apply attempts: at most one unfinished per plan, updated only from the newest version.

use cleveragents_domain::apply_record::{ApplyPartState, ApplyRecord, ApplyState};
use cleveragents_domain::id::{ApplyId, PlanId};
use cleveragents_integration_tests::assertions::{
    assert_conflict, assert_missing, assert_one_winner, assert_refused, assert_taken,
};
use cleveragents_integration_tests::execution_samples::{apply, store_sandbox};
use cleveragents_integration_tests::samples::{at, plan_id};
use cleveragents_integration_tests::store_access::{read, run_concurrently, try_write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::{Result, StoreHandle};

contract! {
    an_attempt_reads_back_with_its_number,
    a_plan_has_one_unfinished_attempt,
    concurrent_attempt_starts_have_one_winner,
    a_stale_change_of_an_attempt_is_a_conflict,
    a_finished_attempt_does_not_restart,
    unfinished_attempts_of_all_plans_are_found,
}

async fn insert(store: &StoreHandle, apply: &ApplyRecord) -> Result<i64> {
    let apply = apply.clone();
    try_write(store, move |tx| tx.insert_apply(&apply)).await
}

async fn update(store: &StoreHandle, apply: &ApplyRecord) -> Result<i64> {
    let apply = apply.clone();
    try_write(store, move |tx| tx.update_apply(&apply)).await
}

async fn get(store: &StoreHandle, id: ApplyId) -> ApplyRecord {
    read(store, move |tx| tx.apply(id)).await
}

async fn of_plan(store: &StoreHandle, plan: PlanId) -> Vec<ApplyRecord> {
    read(store, move |tx| tx.applies_of(plan)).await
}

fn an_attempt_reads_back_with_its_number(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (plan, sandbox) = store_sandbox(&opened.store).await;
        let mut wanted = Vec::new();
        for number in 1..=3 {
            let sample = ApplyRecord {
                state: ApplyState::Done,
                ..apply(plan, sandbox)
            };
            assert_eq!(insert(&opened.store, &sample).await.unwrap(), number);
            wanted.push(ApplyRecord { number, ..sample });
        }
        assert_eq!(of_plan(&opened.store, plan).await, wanted);
        assert_eq!(get(&opened.store, wanted[1].id).await, wanted[1]);
        assert_taken(
            insert(&opened.store, &wanted[0]).await,
            ("the apply id", &wanted[0].id.to_string(), "another apply"),
        );
        let nowhere = apply(plan_id(), sandbox);
        assert_missing(
            insert(&opened.store, &nowhere).await,
            ("plan", &nowhere.plan_id.to_string()),
        );
        let missing = ("apply", &*nowhere.id.to_string());
        assert_missing(update(&opened.store, &nowhere).await, missing);
        let id = nowhere.id;
        let found = opened.store.read(move |tx| tx.apply(id)).await;
        assert_missing(found, missing);
    });
}

fn a_plan_has_one_unfinished_attempt(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (plan, sandbox) = store_sandbox(&opened.store).await;
        let mut number = 0;
        for state in ApplyState::ALL {
            let sample = ApplyRecord {
                state: *state,
                ..apply(plan, sandbox)
            };
            number += 1;
            assert_eq!(insert(&opened.store, &sample).await.unwrap(), number);
            let next = apply(plan, sandbox);
            if state.is_unfinished() {
                assert_taken(
                    insert(&opened.store, &next).await,
                    (
                        "the unfinished apply of plan",
                        &plan.to_string(),
                        &sample.id.to_string(),
                    ),
                );
                let done = ApplyRecord {
                    state: ApplyState::Aborted,
                    ..sample
                };
                assert_eq!(update(&opened.store, &done).await.unwrap(), 2);
            }
        }
        assert_eq!(
            of_plan(&opened.store, plan).await.len(),
            ApplyState::ALL.len()
        );
        // A finished attempt may exist beside an unfinished one.
        insert(&opened.store, &apply(plan, sandbox)).await.unwrap();
        let finished = ApplyRecord {
            state: ApplyState::Stopped,
            ..apply(plan, sandbox)
        };
        insert(&opened.store, &finished).await.unwrap();
    });
}

fn concurrent_attempt_starts_have_one_winner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (plan, sandbox) = store_sandbox(&opened.store).await;
        let answers = run_concurrently(16, |_| {
            let store = opened.store.clone();
            let sample = apply(plan, sandbox);
            async move {
                insert(&store, &sample)
                    .await
                    .map(|number| (number, sample.id))
            }
        })
        .await;
        let ((number, winner), refused) = assert_one_winner(answers);
        assert_eq!(number, 1);
        for error in refused {
            assert_taken::<()>(
                Err(error),
                (
                    "the unfinished apply of plan",
                    &plan.to_string(),
                    &winner.to_string(),
                ),
            );
        }
        assert_eq!(of_plan(&opened.store, plan).await.len(), 1);
    });
}

fn a_stale_change_of_an_attempt_is_a_conflict(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (plan, sandbox) = store_sandbox(&opened.store).await;
        let sample = apply(plan, sandbox);
        insert(&opened.store, &sample).await.unwrap();
        let answers = run_concurrently(16, |task| {
            let store = opened.store.clone();
            let mut changed = ApplyRecord {
                state: ApplyState::Decided,
                updated_at: at(task as i64),
                ..sample.clone()
            };
            changed.resources[0].state = ApplyPartState::Done;
            async move { update(&store, &changed).await.map(|_| changed) }
        })
        .await;
        let (winner, refused) = assert_one_winner(answers);
        for error in refused {
            assert_conflict::<()>(Err(error), ("apply", 1, 2));
        }
        let newest = ApplyRecord {
            number: 1,
            version: 2,
            ..winner
        };
        assert_eq!(get(&opened.store, sample.id).await, newest);
    });
}

fn a_finished_attempt_does_not_restart(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (plan, sandbox) = store_sandbox(&opened.store).await;
        let sample = ApplyRecord {
            state: ApplyState::Stopped,
            number: 1,
            ..apply(plan, sandbox)
        };
        insert(&opened.store, &sample).await.unwrap();
        insert(&opened.store, &apply(plan, sandbox)).await.unwrap();
        let again = ApplyRecord {
            state: ApplyState::Decided,
            ..sample.clone()
        };
        assert_refused(
            update(&opened.store, &again).await,
            (
                "apply",
                &sample.id.to_string(),
                "is stopped and cannot become decided",
            ),
        );
        assert_eq!(get(&opened.store, sample.id).await, sample);
        let message = ApplyRecord {
            updated_at: at(9),
            ..sample
        };
        assert_eq!(update(&opened.store, &message).await.unwrap(), 2);
    });
}

fn unfinished_attempts_of_all_plans_are_found(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let mut wanted = Vec::new();
        for state in ApplyState::ALL {
            let (plan, sandbox) = store_sandbox(&opened.store).await;
            let sample = ApplyRecord {
                state: *state,
                number: 1,
                ..apply(plan, sandbox)
            };
            insert(&opened.store, &sample).await.unwrap();
            if state.is_unfinished() {
                wanted.push(sample);
            }
        }
        wanted.sort_by_key(|apply| apply.plan_id);
        let found = read(&opened.store, |tx| tx.unfinished_applies()).await;
        assert_eq!(found, wanted);
        assert_eq!(wanted.len(), 2);
    });
}

//! Deleting a plan: deletes everything but its journal, and nothing can be added meanwhile.

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{DecisionEdge, InvariantScope, MessageKind, Plan, StreamId};
use cleveragents_integration_tests::assertions::{assert_conflict, assert_missing};
use cleveragents_integration_tests::lifecycle_samples::{
    child_decision, correction, error, invariant, message, root_decision, store_sample_plan,
};
use cleveragents_integration_tests::samples::{event, name};
use cleveragents_integration_tests::store_access::{
    events, read, run_concurrently, try_write, write,
};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::{
    BlobHash, Entity, PlanFilter, Result, StoreError, StoreHandle, Transaction, UniqueKey,
};

contract! {
    a_plans_rows_are_deleted_with_it,
    a_stale_deletion_is_a_conflict,
    nothing_can_be_added_to_a_deleted_plan,
    concurrent_inserts_and_deletion_leave_nothing,
}

/// Adds one row of every kind to the plan.
fn insert_rows(tx: &mut dyn Transaction, plan: PlanId) -> Result<()> {
    let root = root_decision(plan);
    let child = child_decision(&root);
    tx.insert_decision(&root)?;
    tx.insert_decision(&child)?;
    let edge = DecisionEdge {
        from: root.decision_id,
        to: child.decision_id,
    };
    tx.add_influence(plan, edge)?;
    tx.insert_correction(&correction(&root, 0))?;
    tx.record_error(&error(plan, "no net", 1))?;
    tx.send_message(&message(plan, "stop"))?;
    tx.insert_invariant(&invariant("keep it", InvariantScope::Plan(plan), 0))?;
    tx.append(StreamId::Plan(plan), &[event(1)])?;
    Ok(())
}

/// The number of a plan's rows besides its own.
async fn count_rows(store: &StoreHandle, plan: PlanId) -> usize {
    read(store, move |tx| {
        let filter = PlanFilter {
            projects: vec![name("local/shop")],
            ..PlanFilter::default()
        };
        Ok(tx.decisions_of(plan)?.len()
            + tx.influences_of(plan)?.len()
            + tx.corrections_of(plan)?.len()
            + tx.errors_of(plan, 0, u32::MAX)?.len()
            + tx.pending_messages(plan, MessageKind::ALL)? as usize
            + tx.invariants_for(&[], None, Some(plan))?.len()
            + tx.list_plans(&filter)?.plans.len())
    })
    .await
}

async fn delete(store: &StoreHandle, plan: &Plan) -> Result<()> {
    let plan = plan.clone();
    try_write(store, move |tx| tx.delete_plan(&plan)).await
}

fn a_plans_rows_are_deleted_with_it(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let id = store_sample_plan(&opened.store).await;
        let blob = opened.store.stage_blob(b"context".to_vec()).await.unwrap();
        write(&opened.store, move |tx| {
            tx.put_blob(&blob, &id.to_string())?;
            insert_rows(tx, id)
        })
        .await;
        assert_eq!(count_rows(&opened.store, id).await, 8);
        let plan = read(&opened.store, move |tx| tx.plan(id)).await;
        delete(&opened.store, &plan).await.unwrap();
        assert_eq!(count_rows(&opened.store, id).await, 0);
        let gone = opened.store.read(move |tx| tx.plan(id)).await;
        assert_missing(gone, ("plan", &id.to_string()));
        // The journal stays, and so does the blob until it is collected, but nothing references it.
        assert_eq!(events(&opened.store, StreamId::Plan(id)).await.len(), 1);
        let hash = BlobHash::of(b"context");
        let kept = read(&opened.store, move |tx| tx.blob(&hash)).await;
        assert!(kept.is_some());
        let held = write(&opened.store, move |tx| tx.release_blobs(&id.to_string())).await;
        assert_eq!(held, 0);
    });
}

fn a_stale_deletion_is_a_conflict(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let id = store_sample_plan(&opened.store).await;
        let plan = read(&opened.store, move |tx| tx.plan(id)).await;
        let changed = plan.clone();
        write(&opened.store, move |tx| tx.update_plan(&changed)).await;
        assert_conflict(delete(&opened.store, &plan).await, ("plan", 1, 2));
        let newest = Plan { version: 2, ..plan };
        delete(&opened.store, &newest).await.unwrap();
        assert_missing(
            delete(&opened.store, &newest).await,
            ("plan", &id.to_string()),
        );
    });
}

fn nothing_can_be_added_to_a_deleted_plan(backend: Backend) {
    type RowInsert = fn(&mut dyn Transaction, PlanId) -> Result<()>;
    let additions: [RowInsert; 4] = [
        |tx, plan| tx.insert_decision(&root_decision(plan)).map(drop),
        |tx, plan| tx.record_error(&error(plan, "late", 1)).map(drop),
        |tx, plan| tx.send_message(&message(plan, "late")).map(drop),
        |tx, plan| tx.insert_invariant(&invariant("late", InvariantScope::Plan(plan), 0)),
    ];
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let id = store_sample_plan(&opened.store).await;
        let plan = read(&opened.store, move |tx| tx.plan(id)).await;
        delete(&opened.store, &plan).await.unwrap();
        for add in additions {
            let answer = try_write(&opened.store, move |tx| add(tx, id)).await;
            assert_missing(answer, ("plan", &id.to_string()));
        }
    });
}

fn concurrent_inserts_and_deletion_leave_nothing(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let id = store_sample_plan(&opened.store).await;
        let plan = read(&opened.store, move |tx| tx.plan(id)).await;
        let answers = run_concurrently(16, |number| {
            let (store, plan) = (opened.store.clone(), plan.clone());
            async move {
                match number {
                    8 => delete(&store, &plan).await,
                    _ => try_write(&store, move |tx| insert_rows(tx, id)).await,
                }
            }
        })
        .await;
        for (number, answer) in answers.into_iter().enumerate() {
            match answer {
                Ok(()) => {}
                Err(StoreError::NotFound {
                    entity: Entity::Plan,
                    ..
                }) if number != 8 => {}
                // The rule has the same text each time.
                Err(StoreError::Taken {
                    key: UniqueKey::InvariantText,
                    ..
                }) if number != 8 => {}
                other => panic!("{number}: {other:?}"),
            }
        }
        assert_eq!(count_rows(&opened.store, id).await, 0);
    });
}

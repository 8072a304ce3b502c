//! Deleting a plan: everything goes with it but its journal, and nothing can be added meanwhile.

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{DecisionEdge, MessageKind, Plan, Scope, StreamId};
use cleveragents_engine::ports::{BlobHash, PlanFilter, Result, StoreError, StoreHandle, Unit};
use cleveragents_proof::answers::{assert_conflict, assert_missing};
use cleveragents_proof::lifecycle_samples::{
    child_decision, correction, error, invariant, message, root_decision, stored_plan,
};
use cleveragents_proof::samples::{event, name};
use cleveragents_proof::verbs::{attempt, events, read, together, write};
use cleveragents_proof::{Backend, Place, block_on, contract};

contract! {
    what_belongs_to_a_plan_goes_with_it,
    a_stale_deletion_is_a_conflict,
    nothing_can_be_added_to_a_deleted_plan,
    additions_and_deletion_at_once_leave_nothing_behind,
}

/// Gives the plan one of everything.
fn furnish(unit: &mut dyn Unit, plan: PlanId) -> Result<()> {
    let root = root_decision(plan);
    let child = child_decision(&root);
    unit.insert_decision(&root)?;
    unit.insert_decision(&child)?;
    let edge = DecisionEdge {
        from: root.decision_id,
        to: child.decision_id,
    };
    unit.add_influence(plan, edge)?;
    unit.insert_correction(&correction(&root, 0))?;
    unit.record_error(&error(plan, "no net", 1))?;
    unit.send_message(&message(plan, "stop"))?;
    unit.insert_invariant(&invariant("keep it", Scope::Plan(plan), 0))?;
    unit.append(StreamId::Plan(plan), &[event(1)])?;
    Ok(())
}

/// How much there is of a plan beside its row.
async fn belongings(store: &StoreHandle, plan: PlanId) -> usize {
    read(store, move |unit| {
        let filter = PlanFilter {
            project: Some(name("local/shop")),
            ..PlanFilter::default()
        };
        Ok(unit.decisions_of(plan)?.len()
            + unit.influences_of(plan)?.len()
            + unit.corrections_of(plan)?.len()
            + unit.errors_of(plan, 0, u32::MAX)?.len()
            + unit.pending_messages(plan, MessageKind::ALL)? as usize
            + unit.invariants_for(&[], None, Some(plan))?.len()
            + unit.list_plans(&filter)?.plans.len())
    })
    .await
}

async fn delete(store: &StoreHandle, plan: &Plan) -> Result<()> {
    let plan = plan.clone();
    attempt(store, move |unit| unit.delete_plan(&plan)).await
}

fn what_belongs_to_a_plan_goes_with_it(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    block_on(async {
        let id = stored_plan(&opened.store).await;
        let blob = opened.store.stage_blob(b"context".to_vec()).await.unwrap();
        write(&opened.store, move |unit| {
            unit.put_blob(&blob, &id.to_string())?;
            furnish(unit, id)
        })
        .await;
        assert_eq!(belongings(&opened.store, id).await, 8);
        let plan = read(&opened.store, move |unit| unit.plan(id)).await;
        delete(&opened.store, &plan).await.unwrap();
        assert_eq!(belongings(&opened.store, id).await, 0);
        let gone = opened.store.read(move |unit| unit.plan(id)).await;
        assert_missing(gone, ("plan", &id.to_string()));
        // The journal stays, and so does the blob until it is collected; but nobody names it.
        assert_eq!(events(&opened.store, StreamId::Plan(id)).await.len(), 1);
        let hash = BlobHash::of(b"context");
        let kept = read(&opened.store, move |unit| unit.blob(&hash)).await;
        assert!(kept.is_some());
        let held = write(&opened.store, move |unit| {
            unit.release_blobs(&id.to_string())
        })
        .await;
        assert_eq!(held, 0);
    });
}

fn a_stale_deletion_is_a_conflict(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    block_on(async {
        let id = stored_plan(&opened.store).await;
        let plan = read(&opened.store, move |unit| unit.plan(id)).await;
        let changed = plan.clone();
        write(&opened.store, move |unit| unit.update_plan(&changed)).await;
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
    type Addition = fn(&mut dyn Unit, PlanId) -> Result<()>;
    let additions: [Addition; 4] = [
        |unit, plan| unit.insert_decision(&root_decision(plan)).map(drop),
        |unit, plan| unit.record_error(&error(plan, "late", 1)).map(drop),
        |unit, plan| unit.send_message(&message(plan, "late")).map(drop),
        |unit, plan| unit.insert_invariant(&invariant("late", Scope::Plan(plan), 0)),
    ];
    let place = Place::new(backend);
    let opened = place.open();
    block_on(async {
        let id = stored_plan(&opened.store).await;
        let plan = read(&opened.store, move |unit| unit.plan(id)).await;
        delete(&opened.store, &plan).await.unwrap();
        for add in additions {
            let answer = attempt(&opened.store, move |unit| add(unit, id)).await;
            assert_missing(answer, ("plan", &id.to_string()));
        }
    });
}

fn additions_and_deletion_at_once_leave_nothing_behind(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    block_on(async {
        let id = stored_plan(&opened.store).await;
        let plan = read(&opened.store, move |unit| unit.plan(id)).await;
        let answers = together(16, |number| {
            let (store, plan) = (opened.store.clone(), plan.clone());
            async move {
                match number {
                    8 => delete(&store, &plan).await,
                    _ => attempt(&store, move |unit| furnish(unit, id)).await,
                }
            }
        })
        .await;
        for (number, answer) in answers.into_iter().enumerate() {
            match answer {
                Ok(()) => {}
                Err(StoreError::NotFound { what: "plan", .. }) if number != 8 => {}
                // The rule has the same text each time.
                Err(StoreError::Taken {
                    what: "the invariant",
                    ..
                }) if number != 8 => {}
                other => panic!("{number}: {other:?}"),
            }
        }
        assert_eq!(belongings(&opened.store, id).await, 0);
    });
}

//! All that is stored of a plan's work: it goes with the plan, and it travels in a backup.

use cleveragents_domain::application::ApplyRecord;
use cleveragents_domain::changeset::{ChangesetRecord, NewChange, RecordedChange};
use cleveragents_domain::checkpoint::Checkpoint;
use cleveragents_domain::id::{ChangesetId, CheckpointId, PlanId, SandboxId};
use cleveragents_domain::model::Usage;
use cleveragents_domain::model_call::{ModelCallEnd, ModelCallRecord, ModelCallState, Spent};
use cleveragents_domain::sandbox::SandboxRecord;
use cleveragents_domain::strategy::StrategyRecord;
use cleveragents_domain::tool_call::{ToolCallEnd, ToolCallRecord, ToolCallState};
use cleveragents_engine::ports::{Ids, Result, StoreError, StoreHandle, Unit};
use cleveragents_engine::system::SystemIds;
use cleveragents_proof::answers::assert_missing;
use cleveragents_proof::execution_samples::{
    apply, changeset, checkpoint, creation, model_call, process, sandbox, strategy, tool_call, tree,
};
use cleveragents_proof::lifecycle_samples::stored_plan;
use cleveragents_proof::samples::at;
use cleveragents_proof::verbs::{attempt, read, together, write};
use cleveragents_proof::{Backend, Place, block_on, contract};
use cleveragents_store::{Altered, Existing};
use serde_json::{Value, json};

use super::maintenance::{file, save};

contract! {
    what_a_plan_did_goes_with_it,
    nothing_is_done_in_a_deleted_plan,
    work_and_deletion_at_once_leave_nothing_behind,
    a_backup_carries_what_plans_did_to_either_engine,
}

/// Everything that can be read of a plan's work.
#[derive(Debug, Clone, PartialEq, Default)]
struct Work {
    sandboxes: Vec<SandboxRecord>,
    changesets: Vec<ChangesetRecord>,
    changes: Vec<RecordedChange>,
    calls: Vec<ToolCallRecord>,
    unfinished: Vec<ToolCallRecord>,
    asked: Vec<ModelCallRecord>,
    checkpoints: Vec<Checkpoint>,
    strategy: Option<StrategyRecord>,
    validations: Option<Value>,
    applies: Vec<ApplyRecord>,
}

impl Work {
    async fn of(store: &StoreHandle, plan: PlanId) -> Self {
        read(store, move |unit| {
            let changesets = unit.changesets_of(plan)?;
            let mut changes = Vec::new();
            for changeset in &changesets {
                changes.extend(unit.changes_after(changeset.id, 0, u32::MAX)?);
            }
            Ok(Self {
                sandboxes: unit.sandboxes_of(plan)?,
                changesets,
                changes,
                calls: unit.tool_calls_after(plan, 0, u32::MAX)?,
                unfinished: unit.unfinished_tool_calls(plan)?,
                asked: unit.model_calls_after(plan, 0, u32::MAX)?,
                checkpoints: unit.checkpoints_of(plan)?,
                strategy: unit.newest_strategy(plan)?,
                validations: unit.newest_validation_run(plan, 3)?,
                applies: unit.applies_of(plan)?,
            })
        })
        .await
    }

    /// How much there is of each.
    fn counts(&self) -> [usize; 10] {
        [
            self.sandboxes.len(),
            self.changesets.len(),
            self.changes.len(),
            self.calls.len(),
            self.unfinished.len(),
            self.asked.len(),
            self.checkpoints.len(),
            usize::from(self.strategy.is_some()),
            usize::from(self.validations.is_some()),
            self.applies.len(),
        ]
    }
}

/// Does one of everything for the plan and says in which changeset.
fn work(unit: &mut dyn Unit, plan: PlanId) -> Result<ChangesetId> {
    let place = sandbox(plan, 1);
    unit.insert_sandbox(&place)?;
    let [open, closed] = [(); 2].map(|()| changeset(plan, place.id));
    for header in [&open, &closed] {
        unit.insert_changeset(header)?;
        let call = unit.begin_tool_call(&tool_call(plan, place.id))?;
        unit.mark_tool_call(call.call.id, &process())?;
        let change = NewChange {
            call_number: call.number,
            ..creation(b"src/\xff\0")
        };
        unit.record_changes(header.id, &[change.clone(), change])?;
        if header.id == closed.id {
            let end = ToolCallEnd {
                state: ToolCallState::Completed,
                output: Some(json!({ "text": "so \0" })),
                error: Some("nur halb \u{fdd0}".to_owned()),
                tree_after: tree('f'),
            };
            unit.end_tool_call(call.call.id, &end)?;
        }
    }
    unit.close_changeset(closed.id, at(9))?;
    for state in [ModelCallState::Asked, ModelCallState::Answered] {
        let call = unit.begin_model_call(&model_call(plan))?;
        if state == ModelCallState::Answered {
            let end = ModelCallEnd {
                state,
                answer: Some("e".repeat(64)),
                usage: Usage::default(),
                spent: Spent {
                    tokens: 7,
                    usd: 0.5,
                },
                error: Some("nur halb \0".to_owned()),
            };
            unit.end_model_call(call.call.id, &end)?;
        }
    }
    for _ in 0..3 {
        unit.insert_checkpoint(&checkpoint(plan, place.id), 2)?;
    }
    let by = CheckpointId::new(SystemIds.next());
    unit.undo_checkpoints(plan, 2, by)?;
    unit.undo_changes(plan, 1, by)?;
    let number = unit.insert_strategy(&strategy(plan))?;
    unit.approve_strategy(&StrategyRecord {
        number,
        approved_by: Some("eva".to_owned()),
        approved_at: Some(at(4)),
        ..strategy(plan)
    })?;
    unit.put_validation_run(plan, 3, 1, &json!({ "failed": ["\0"] }))?;
    unit.insert_apply(&apply(plan, place.id))?;
    Ok(open.id)
}

const COUNTS: [usize; 10] = [1, 2, 4, 2, 1, 2, 2, 1, 1, 1];

async fn delete(store: &StoreHandle, plan: PlanId) -> Result<()> {
    attempt(store, move |unit| {
        let found = unit.plan_for_update(plan)?;
        unit.delete_plan(&found)
    })
    .await
}

fn what_a_plan_did_goes_with_it(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    block_on(async {
        let [plan, other] = [
            stored_plan(&opened.store).await,
            stored_plan(&opened.store).await,
        ];
        let gone = write(&opened.store, move |unit| work(unit, plan)).await;
        write(&opened.store, move |unit| work(unit, other)).await;
        let kept = Work::of(&opened.store, other).await;
        assert_eq!(kept.counts(), COUNTS);
        assert_eq!(Work::of(&opened.store, plan).await.counts(), COUNTS);
        delete(&opened.store, plan).await.unwrap();
        assert_eq!(Work::of(&opened.store, plan).await, Work::default());
        let entries = read(&opened.store, move |unit| unit.changes_after(gone, 0, 9)).await;
        assert!(entries.is_empty());
        assert_eq!(Work::of(&opened.store, other).await, kept);
    });
}

fn nothing_is_done_in_a_deleted_plan(backend: Backend) {
    type Addition = fn(&mut dyn Unit, PlanId, SandboxId) -> Result<()>;
    let additions: [Addition; 9] = [
        |unit, plan, _| unit.insert_sandbox(&sandbox(plan, 2)),
        |unit, plan, sandbox| unit.insert_changeset(&changeset(plan, sandbox)),
        |unit, plan, sandbox| unit.begin_tool_call(&tool_call(plan, sandbox)).map(drop),
        |unit, plan, sandbox| {
            unit.insert_checkpoint(&checkpoint(plan, sandbox), 9)
                .map(drop)
        },
        |unit, plan, _| unit.insert_strategy(&strategy(plan)).map(drop),
        |unit, plan, _| unit.put_validation_run(plan, 1, 1, &json!(1)),
        |unit, plan, sandbox| unit.insert_apply(&apply(plan, sandbox)).map(drop),
        |unit, plan, _| {
            unit.undo_changes(plan, 0, CheckpointId::new(SystemIds.next()))
                .map(drop)
        },
        |unit, plan, _| {
            unit.undo_checkpoints(plan, 0, CheckpointId::new(SystemIds.next()))
                .map(drop)
        },
    ];
    let place = Place::new(backend);
    let opened = place.open();
    block_on(async {
        let plan = stored_plan(&opened.store).await;
        let gone = write(&opened.store, move |unit| work(unit, plan)).await;
        let sandbox = Work::of(&opened.store, plan).await.sandboxes[0].id;
        delete(&opened.store, plan).await.unwrap();
        for add in additions {
            let answer = attempt(&opened.store, move |unit| add(unit, plan, sandbox)).await;
            assert_missing(answer, ("plan", &plan.to_string()));
        }
        let answer = attempt(&opened.store, move |unit| {
            unit.record_changes(gone, &[creation(b"late")])
        })
        .await;
        assert_missing(answer, ("changeset", &gone.to_string()));
        assert_eq!(Work::of(&opened.store, plan).await, Work::default());
    });
}

fn work_and_deletion_at_once_leave_nothing_behind(backend: Backend) {
    let place = Place::new(backend);
    let opened = place.open();
    block_on(async {
        let plan = stored_plan(&opened.store).await;
        let started = write(&opened.store, move |unit| work(unit, plan)).await;
        let answers = together(16, |number| {
            let store = opened.store.clone();
            async move {
                match number {
                    8 => delete(&store, plan).await,
                    _ => {
                        let record = attempt(&store, move |unit| {
                            unit.record_changes(started, &[creation(b"more")])?;
                            unit.insert_checkpoint(&checkpoint(plan, sandbox(plan, 0).id), 9)
                        });
                        record.await.map(drop)
                    }
                }
            }
        })
        .await;
        for (number, answer) in answers.into_iter().enumerate() {
            match answer {
                Ok(()) => {}
                Err(StoreError::NotFound { what, .. }) if number != 8 => {
                    assert!(["plan", "changeset"].contains(&what), "{what}");
                }
                other => panic!("{number}: {other:?}"),
            }
        }
        assert_eq!(Work::of(&opened.store, plan).await, Work::default());
        let entries = read(&opened.store, move |unit| {
            unit.changes_after(started, 0, 99)
        })
        .await;
        assert!(entries.is_empty());
    });
}

fn a_backup_carries_what_plans_did_to_either_engine(backend: Backend) {
    let source = Place::new(backend);
    let opened = source.open();
    let (plan, open, before) = block_on(async {
        let plan = stored_plan(&opened.store).await;
        let open = write(&opened.store, move |unit| work(unit, plan)).await;
        (plan, open, Work::of(&opened.store, plan).await)
    });
    assert_eq!(before.counts(), COUNTS);
    let path = file(&source, "work.tar");
    save(&opened, &path);
    for target in [Backend::Sqlite, Backend::Postgres] {
        let place = Place::new(target);
        place
            .restore(&path, Altered::Refuse, &Existing::Refuse)
            .unwrap();
        let opened = place.open();
        block_on(async {
            assert_eq!(Work::of(&opened.store, plan).await, before);
            // Numbers go on where they were, and what was closed or taken still is.
            let sandbox = before.sandboxes[0].id;
            let told = write(&opened.store, move |unit| {
                let call = unit.begin_tool_call(&tool_call(plan, sandbox))?;
                let entries = unit.record_changes(open, &[creation(b"more")])?;
                let checkpoint = unit.insert_checkpoint(&checkpoint(plan, sandbox), 9)?;
                let strategy = unit.insert_strategy(&strategy(plan))?;
                Ok((call.number, entries[0].sequence, checkpoint, strategy))
            })
            .await;
            assert_eq!(told, (3, 3, 4, 2));
            let second = attempt(&opened.store, move |unit| {
                unit.insert_apply(&apply(plan, sandbox))
            })
            .await;
            assert!(matches!(second, Err(StoreError::Taken { .. })));
            let closed = before.changesets[1].id;
            let refused = attempt(&opened.store, move |unit| {
                unit.record_changes(closed, &[creation(b"more")])
            })
            .await;
            assert!(matches!(refused, Err(StoreError::Refused { .. })));
        });
    }
}

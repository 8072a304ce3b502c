//! All records of a plan's work: deleted with the plan, and included in a backup.

use cleveragents_domain::ValidationSummary;
use cleveragents_domain::apply_record::ApplyRecord;
use cleveragents_domain::changeset::{ChangesetRecord, NewChange, RecordedChange};
use cleveragents_domain::checkpoint::Checkpoint;
use cleveragents_domain::id::{ChangesetId, CheckpointId, PlanId, SandboxId};
use cleveragents_domain::model::Usage;
use cleveragents_domain::model_call::{
    ModelCallEnd, ModelCallRecord, ModelCallState, ModelSpend, ModelTotals,
};
use cleveragents_domain::sandbox::SandboxRecord;
use cleveragents_domain::strategy::{Approver, StrategyRecord};
use cleveragents_domain::tool_call::{ToolCallEnd, ToolCallRecord, ToolCallState};
use cleveragents_integration_tests::assertions::assert_missing;
use cleveragents_integration_tests::execution_samples::{
    apply, changeset, checkpoint, creation, model_call, process, sandbox, strategy, tool_call,
    tree, validation_summary,
};
use cleveragents_integration_tests::lifecycle_samples::store_sample_plan;
use cleveragents_integration_tests::samples::at;
use cleveragents_integration_tests::store_access::{read, run_concurrently, try_write, write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::system::SystemIds;
use cleveragents_ports::{Entity, Ids, Result, StoreError, StoreHandle, Transaction};
use cleveragents_store::{AlteredBackupPolicy, ExistingDataPolicy};
use serde_json::json;

use super::maintenance::{file, save};

contract! {
    a_plans_work_is_deleted_with_it,
    nothing_can_be_recorded_for_a_deleted_plan,
    concurrent_work_and_deletion_leave_nothing,
    a_backup_restores_plan_work_on_either_engine,
}

/// All readable records of a plan's work.
#[derive(Debug, Clone, PartialEq, Default)]
struct StoredPlanWork {
    sandboxes: Vec<SandboxRecord>,
    changesets: Vec<ChangesetRecord>,
    changes: Vec<RecordedChange>,
    calls: Vec<ToolCallRecord>,
    unfinished: Vec<ToolCallRecord>,
    model_calls: Vec<ModelCallRecord>,
    model_totals: ModelTotals,
    checkpoints: Vec<Checkpoint>,
    strategy: Option<StrategyRecord>,
    validations: Option<ValidationSummary>,
    applies: Vec<ApplyRecord>,
}

impl StoredPlanWork {
    async fn load(store: &StoreHandle, plan: PlanId) -> Self {
        read(store, move |tx| {
            let changesets = tx.changesets_of(plan)?;
            let mut changes = Vec::new();
            for changeset in &changesets {
                changes.extend(tx.changes_after(changeset.id, 0, u32::MAX)?);
            }
            Ok(Self {
                sandboxes: tx.sandboxes_of(plan)?,
                changesets,
                changes,
                calls: tx.tool_calls_after(plan, 0, u32::MAX)?,
                unfinished: tx.unfinished_tool_calls(plan)?,
                model_calls: tx.model_calls_after(plan, 0, u32::MAX)?,
                model_totals: tx.model_totals(plan)?,
                checkpoints: tx.checkpoints_of(plan)?,
                strategy: tx.newest_strategy(plan)?,
                validations: tx.newest_validation_run(plan, 3)?,
                applies: tx.applies_of(plan)?,
            })
        })
        .await
    }

    /// The number of records of each kind.
    fn counts(&self) -> [usize; 10] {
        [
            self.sandboxes.len(),
            self.changesets.len(),
            self.changes.len(),
            self.calls.len(),
            self.unfinished.len(),
            self.model_calls.len(),
            self.checkpoints.len(),
            usize::from(self.strategy.is_some()),
            usize::from(self.validations.is_some()),
            self.applies.len(),
        ]
    }
}

/// Adds one record of every kind to the plan; returns the changeset.
fn insert_work(tx: &mut dyn Transaction, plan: PlanId) -> Result<ChangesetId> {
    let place = sandbox(plan, 1);
    tx.insert_sandbox(&place)?;
    let [open, closed] = [(); 2].map(|()| changeset(plan, place.id));
    for header in [&open, &closed] {
        tx.insert_changeset(header)?;
        let call = tx.begin_tool_call(&tool_call(plan, place.id))?;
        tx.set_tool_call_process(call.call.id, &process())?;
        let change = NewChange {
            call_number: call.number,
            ..creation(b"src/\xff\0")
        };
        tx.record_changes(header.id, &[change.clone(), change])?;
        if header.id == closed.id {
            let end = ToolCallEnd {
                state: ToolCallState::Completed,
                output: Some(json!({ "text": "so \0" })),
                error: Some("nur halb \u{fdd0}".to_owned()),
                tree_after: tree('f'),
            };
            tx.end_tool_call(call.call.id, &end)?;
        }
    }
    tx.close_changeset(closed.id, at(9))?;
    for state in [ModelCallState::Asked, ModelCallState::Answered] {
        let call = tx.begin_model_call(&model_call(plan))?;
        if state == ModelCallState::Answered {
            let end = ModelCallEnd {
                state,
                answer: Some("e".repeat(64)),
                usage: Usage {
                    input_tokens: 7,
                    ..Usage::default()
                },
                spent: ModelSpend {
                    tokens: 7,
                    usd: Some(0.5),
                },
                is_estimate: false,
                error: Some("nur halb \0".to_owned()),
            };
            tx.end_model_call(call.call.id, &end)?;
        }
    }
    for _ in 0..3 {
        tx.insert_checkpoint(&checkpoint(plan, place.id), 2)?;
    }
    let by = CheckpointId::new(SystemIds.next());
    tx.undo_checkpoints(plan, 2, by)?;
    tx.undo_changes(plan, 1, by)?;
    let number = tx.insert_strategy(&strategy(plan))?;
    tx.approve_strategy(&StrategyRecord {
        number,
        approved_by: Some(Approver::User("eva".to_owned())),
        approved_at: Some(at(4)),
        ..strategy(plan)
    })?;
    tx.put_validation_run(plan, 3, 1, &validation_summary("\0"))?;
    tx.insert_apply(&apply(plan, place.id))?;
    Ok(open.id)
}

const COUNTS: [usize; 10] = [1, 2, 4, 2, 1, 2, 2, 1, 1, 1];

async fn delete(store: &StoreHandle, plan: PlanId) -> Result<()> {
    try_write(store, move |tx| {
        let found = tx.plan_for_update(plan)?;
        tx.delete_plan(&found)
    })
    .await
}

fn a_plans_work_is_deleted_with_it(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let [plan, other] = [
            store_sample_plan(&opened.store).await,
            store_sample_plan(&opened.store).await,
        ];
        let gone = write(&opened.store, move |tx| insert_work(tx, plan)).await;
        write(&opened.store, move |tx| insert_work(tx, other)).await;
        let kept = StoredPlanWork::load(&opened.store, other).await;
        assert_eq!(kept.counts(), COUNTS);
        assert_eq!(
            StoredPlanWork::load(&opened.store, plan).await.counts(),
            COUNTS
        );
        delete(&opened.store, plan).await.unwrap();
        assert_eq!(
            StoredPlanWork::load(&opened.store, plan).await,
            StoredPlanWork::default()
        );
        let entries = read(&opened.store, move |tx| tx.changes_after(gone, 0, 9)).await;
        assert!(entries.is_empty());
        assert_eq!(StoredPlanWork::load(&opened.store, other).await, kept);
    });
}

fn nothing_can_be_recorded_for_a_deleted_plan(backend: Backend) {
    type WorkInsert = fn(&mut dyn Transaction, PlanId, SandboxId) -> Result<()>;
    let additions: [WorkInsert; 9] = [
        |tx, plan, _| tx.insert_sandbox(&sandbox(plan, 2)),
        |tx, plan, sandbox| tx.insert_changeset(&changeset(plan, sandbox)),
        |tx, plan, sandbox| tx.begin_tool_call(&tool_call(plan, sandbox)).map(drop),
        |tx, plan, sandbox| {
            tx.insert_checkpoint(&checkpoint(plan, sandbox), 9)
                .map(drop)
        },
        |tx, plan, _| tx.insert_strategy(&strategy(plan)).map(drop),
        |tx, plan, _| tx.put_validation_run(plan, 1, 1, &validation_summary("1")),
        |tx, plan, sandbox| tx.insert_apply(&apply(plan, sandbox)).map(drop),
        |tx, plan, _| {
            tx.undo_changes(plan, 0, CheckpointId::new(SystemIds.next()))
                .map(drop)
        },
        |tx, plan, _| {
            tx.undo_checkpoints(plan, 0, CheckpointId::new(SystemIds.next()))
                .map(drop)
        },
    ];
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let plan = store_sample_plan(&opened.store).await;
        let gone = write(&opened.store, move |tx| insert_work(tx, plan)).await;
        let sandbox = StoredPlanWork::load(&opened.store, plan).await.sandboxes[0].id;
        delete(&opened.store, plan).await.unwrap();
        for add in additions {
            let answer = try_write(&opened.store, move |tx| add(tx, plan, sandbox)).await;
            assert_missing(answer, ("plan", &plan.to_string()));
        }
        let answer = try_write(&opened.store, move |tx| {
            tx.record_changes(gone, &[creation(b"late")])
        })
        .await;
        assert_missing(answer, ("changeset", &gone.to_string()));
        assert_eq!(
            StoredPlanWork::load(&opened.store, plan).await,
            StoredPlanWork::default()
        );
    });
}

fn concurrent_work_and_deletion_leave_nothing(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let plan = store_sample_plan(&opened.store).await;
        let started = write(&opened.store, move |tx| insert_work(tx, plan)).await;
        let answers = run_concurrently(16, |number| {
            let store = opened.store.clone();
            async move {
                match number {
                    8 => delete(&store, plan).await,
                    _ => {
                        let record = try_write(&store, move |tx| {
                            tx.record_changes(started, &[creation(b"more")])?;
                            tx.insert_checkpoint(&checkpoint(plan, sandbox(plan, 0).id), 9)
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
                Err(StoreError::NotFound { entity, .. }) if number != 8 => {
                    assert!(
                        [Entity::Plan, Entity::Changeset].contains(&entity),
                        "{entity}"
                    );
                }
                other => panic!("{number}: {other:?}"),
            }
        }
        assert_eq!(
            StoredPlanWork::load(&opened.store, plan).await,
            StoredPlanWork::default()
        );
        let entries = read(&opened.store, move |tx| tx.changes_after(started, 0, 99)).await;
        assert!(entries.is_empty());
    });
}

fn a_backup_restores_plan_work_on_either_engine(backend: Backend) {
    let source = TestDatabase::new(backend);
    let opened = source.open();
    let (plan, open, before) = block_on(async {
        let plan = store_sample_plan(&opened.store).await;
        let open = write(&opened.store, move |tx| insert_work(tx, plan)).await;
        (plan, open, StoredPlanWork::load(&opened.store, plan).await)
    });
    assert_eq!(before.counts(), COUNTS);
    let path = file(&source, "work.tar");
    save(&opened, &path);
    for target in [Backend::Sqlite, Backend::Postgres] {
        let test_db = TestDatabase::new(target);
        test_db
            .restore(
                &path,
                AlteredBackupPolicy::Refuse,
                &ExistingDataPolicy::Refuse,
            )
            .unwrap();
        let opened = test_db.open();
        block_on(async {
            assert_eq!(StoredPlanWork::load(&opened.store, plan).await, before);
            // Numbers continue, and closed or taken records stay so.
            let sandbox = before.sandboxes[0].id;
            let message = write(&opened.store, move |tx| {
                let call = tx.begin_tool_call(&tool_call(plan, sandbox))?;
                let entries = tx.record_changes(open, &[creation(b"more")])?;
                let checkpoint = tx.insert_checkpoint(&checkpoint(plan, sandbox), 9)?;
                let strategy = tx.insert_strategy(&strategy(plan))?;
                Ok((call.number, entries[0].sequence, checkpoint, strategy))
            })
            .await;
            assert_eq!(message, (3, 3, 4, 2));
            let second = try_write(&opened.store, move |tx| {
                tx.insert_apply(&apply(plan, sandbox))
            })
            .await;
            assert!(matches!(second, Err(StoreError::Taken { .. })));
            let closed = before.changesets[1].id;
            let refused = try_write(&opened.store, move |tx| {
                tx.record_changes(closed, &[creation(b"more")])
            })
            .await;
            assert!(matches!(refused, Err(StoreError::Refused { .. })));
        });
    }
}

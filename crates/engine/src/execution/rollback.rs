//! Rolls a plan's sandboxes back to an earlier state.
//!
//! The state before the rollback is first saved as a checkpoint of its own. Undone records are
//! marked, never removed: a rollback to that checkpoint undoes the rollback. Records change in one
//! transaction; the files follow, now or when the sandboxes are opened next.

use std::sync::Arc;

use cleveragents_domain::checkpoint::{Checkpoint, CheckpointTrigger};
use cleveragents_domain::event::payloads::{DecisionReinstated, DecisionSuperseded};
use cleveragents_domain::id::{CheckpointId, DecisionId, IdFragment, PlanId};
use cleveragents_domain::sandbox::SandboxRecord;
use cleveragents_domain::{
    Decision, DecisionType, Move, NewEvent, Phase, Plan, RequiredRollback, StreamId,
};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use super::error::{ExecutionError, LocalOperation, Result};
use super::executor::Executor;
use super::ownership::own_plan;
use super::plan_run::PlanRun;
use super::reject::rejections_after;
use crate::journal::new_event;
use crate::lifecycle::{
    PlanMoveRequest, ProvenOwner, RepeatPolicy, evict, hold_unowned, move_plan,
};
use crate::runs::ClaimOutcome;
use crate::undo::{RestorePoint, UndoSummary, undo_after};
use cleveragents_ports::sandbox::DiffStat;
use cleveragents_ports::{Entity, Ids, Slots, StopSignal, StoreError, Transaction};

/// The number of the state in which the sandboxes were created. The store counts from 1.
const INITIAL_CHECKPOINT: i64 = 0;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RollbackRecord {
    pub plan: Plan,
    pub checkpoint: Checkpoint,
    pub back: UndoSummary,
    pub decisions: Vec<DecisionId>,
    sandboxes: Vec<SandboxRecord>,
}

/// A rollback with the files it restored.
#[derive(Debug, Clone, PartialEq)]
pub struct RollbackOutcome {
    pub record: RollbackRecord,
    pub files: Vec<DiffStat>,
}

/// Returns the rollback to before a call, after which the call is repeated.
pub(crate) fn rollback_before(
    tx: &mut dyn Transaction,
    plan: PlanId,
    call_number: i64,
) -> std::result::Result<RequiredRollback, StoreError> {
    let kept = tx.checkpoints_of(plan)?;
    let is_before = |it: &&Checkpoint| {
        it.undone_by.is_none()
            && it.trigger != CheckpointTrigger::Rollback
            && it.call_number < call_number
    };
    // There is no checkpoint before the first write, and old checkpoints are removed.
    let name = kept.iter().rfind(is_before).map(checkpoint_name);
    let name = name.unwrap_or_else(|| INITIAL_CHECKPOINT.to_string());
    Ok(RequiredRollback {
        call_number,
        checkpoint: name,
    })
}

/// The checkpoint as a request names it: four digits are read as part of an id.
fn checkpoint_name(checkpoint: &Checkpoint) -> String {
    match checkpoint.number {
        number @ ..=999 => number.to_string(),
        _ => checkpoint.id.to_string(),
    }
}

impl Executor {
    /// Returns the plan's checkpoints, oldest first.
    pub async fn checkpoints(&self, plan: PlanId) -> Result<Vec<Checkpoint>> {
        self.services
            .store
            .read(move |tx| {
                tx.plan(plan)?;
                Ok(tx.checkpoints_of(plan)?)
            })
            .await
    }

    /// Kills the commands that a dead owner of the plan left running. Does nothing if the owner is
    /// alive.
    pub async fn end_orphaned_processes(&self, plan: PlanId) -> Result<()> {
        let known = self.services.lifecycle.proven_owner(plan).await?;
        self.end_dead_owner_processes(plan, known).await
    }

    /// Rolls the plan's sandboxes back to a checkpoint. Afterwards the plan is queued in Execute
    /// and waits for the user to run it.
    pub async fn rollback(
        &self,
        plan: PlanId,
        checkpoint: CheckpointChoice,
        actor: &str,
    ) -> Result<RollbackOutcome> {
        self.services
            .require_local(plan, LocalOperation::Rollback)
            .await?;
        self.services.refuse_removed(plan).await?;
        let known = self.services.lifecycle.proven_owner(plan).await?;
        // Before the records change: a process of the old work must not write to restored files.
        self.end_dead_owner_processes(plan, known).await?;
        let (ids, actor) = (Arc::clone(&self.services.ids), actor.to_owned());
        let done: RollbackRecord = self
            .services
            .store
            .write(self.services.operation("plan.rollback"), move |tx| {
                let run = hold_unowned(tx, plan, known)?;
                let held = tx.plan_for_update(plan)?;
                // All records in one commit (law 2). The files follow, and opening a sandbox
                // repeats that after a crash (law 9).
                let done = roll_back(tx, &*ids, held, &checkpoint, &actor)?;
                evict(tx, run.as_ref(), &actor)?;
                Ok::<_, ExecutionError>(done)
            })
            .await?;
        let files = self.diff_restored_files(&done).await?;
        self.restore_files(&done).await?;
        Ok(RollbackOutcome {
            record: done,
            files,
        })
    }

    /// Kills processes that a dead owner left running, so that they cannot write to restored files.
    /// The calls are read in a transaction in which the dead owner still holds the run, so calls of
    /// a new owner are not among them.
    async fn end_dead_owner_processes(
        &self,
        plan: PlanId,
        known: Option<ProvenOwner>,
    ) -> Result<()> {
        let Some(dead) = known.filter(ProvenOwner::is_dead) else {
            return Ok(());
        };
        let calls = self
            .services
            .store
            .read(move |tx| {
                if tx.run_of(plan)?.is_some_and(|run| dead.matches_run(&run)) {
                    tx.unfinished_tool_calls(plan)
                } else {
                    Ok(Vec::new())
                }
            })
            .await?;
        self.services.end_processes(&calls).await
    }

    /// Returns the differences between the files before and after the rollback.
    async fn diff_restored_files(&self, done: &RollbackRecord) -> Result<Vec<DiffStat>> {
        let mut files = Vec::new();
        for record in &done.sandboxes {
            let before = done.back.set_aside.trees.get(&record.id).cloned();
            let (Some(before), Some(tree)) = (before, record.tree.clone()) else {
                continue;
            };
            let (sandboxes, id) = (Arc::clone(&self.services.sandboxes), record.id);
            let diff = spawn_blocking(move || {
                sandboxes
                    .open(id)?
                    .diff(&before, &tree, &[], &StopSignal::new())
            });
            files.extend(diff.await??.files);
        }
        Ok(files)
    }

    /// Restores the files to the recorded trees while this process holds the run. If this is
    /// interrupted, or another process has claimed the run, opening the sandboxes restores them.
    async fn restore_files(&self, done: &RollbackRecord) -> Result<()> {
        let id = done.plan.identity.plan_id;
        let claimed = self
            .services
            .runs
            .claim(id, Phase::Execute, Slots::Shared)
            .await?;
        // Another process runs the plan already and opens the sandboxes at the new tree.
        let ClaimOutcome::Won(run) = claimed else {
            return Ok(());
        };
        let restored = own_plan(&self.services, run, async |_: &mut PlanRun| {
            self.restore_claimed(done).await
        });
        restored.await.map(|owned| owned.outcome)
    }

    async fn restore_claimed(&self, done: &RollbackRecord) -> Result<()> {
        for record in &done.sandboxes {
            let (sandboxes, id) = (Arc::clone(&self.services.sandboxes), record.id);
            // Read the record again: another rollback may have happened between our commit and the
            // claim.
            let newest = self.services.store.read(move |tx| tx.sandbox(id)).await?;
            if let Some(tree) = newest.tree {
                let restore = move || sandboxes.open(id)?.restore(&tree, &StopSignal::new());
                spawn_blocking(restore).await??;
            }
        }
        Ok(())
    }
}

/// Selects a checkpoint.
#[derive(Debug, Clone)]
pub enum CheckpointChoice {
    Number(i64),
    Id(IdFragment),
}

fn roll_back(
    tx: &mut dyn Transaction,
    ids: &dyn Ids,
    plan: Plan,
    choice: &CheckpointChoice,
    actor: &str,
) -> Result<RollbackRecord> {
    let id = plan.identity.plan_id;
    let checkpoint = match choice {
        CheckpointChoice::Id(fragment) => tx.find_checkpoint(id, fragment)?,
        CheckpointChoice::Number(INITIAL_CHECKPOINT) => initial_checkpoint(tx, ids, &plan)?,
        CheckpointChoice::Number(number) => {
            let kept = tx.checkpoints_of(id)?;
            let found = kept.into_iter().find(|it| it.number == *number);
            found.ok_or_else(|| StoreError::NotFound {
                entity: Entity::CheckpointOfPlan,
                id: number.to_string(),
            })?
        }
    };
    require_not_undone(tx, &checkpoint)?;
    let request = PlanMoveRequest {
        plan: id,
        requested: Move::Correct(Phase::Execute),
        actor: actor.to_owned(),
        reason: Some(format!("Rolled back to checkpoint {}", checkpoint.number)),
    };
    let moved = move_plan(tx, ids, &request, RepeatPolicy::Refuse)?;
    let mut plan = moved.plan().clone();
    plan.last_completed_step = checkpoint.step.and_then(|step| step.checked_sub(1));
    plan.last_completed_step = plan.last_completed_step.filter(|step| *step > 0);
    let is_stored = checkpoint.number != INITIAL_CHECKPOINT;
    plan.last_checkpoint_id = is_stored.then_some(checkpoint.id);
    plan.version = tx.update_plan(&plan)?;
    let decisions = later_decisions(tx, id, &checkpoint)?;
    let restore_point = RestorePoint {
        superseded: decisions.clone(),
        ..RestorePoint::from_checkpoint(&checkpoint)
    };
    let (back, restored) =
        undo_after(tx, ids, &plan, &restore_point, actor)?.ok_or(ExecutionError::Resource {
            reason: format!("plan {id} has no sandbox to roll back"),
        })?;
    // A rollback to a checkpoint that a rollback made undoes that rollback.
    tx.redo(id, checkpoint.id)?;
    tx.supersede(id, &decisions)?;
    tx.reinstate(id, &checkpoint.superseded)?;
    let mut events = vec![restored];
    events.extend(decision_events(&checkpoint, &decisions, actor)?);
    tx.append(StreamId::Plan(id), &events)?;
    Ok(RollbackRecord {
        sandboxes: tx.sandboxes_of(id)?,
        plan,
        checkpoint,
        back,
        decisions,
    })
}

/// Returns the events of the decisions that a rollback to `checkpoint` reinstates and supersedes.
fn decision_events(
    checkpoint: &Checkpoint,
    superseded: &[DecisionId],
    actor: &str,
) -> std::result::Result<Vec<NewEvent>, StoreError> {
    let mut events = Vec::new();
    if !checkpoint.superseded.is_empty() {
        let record = DecisionReinstated {
            checkpoint: checkpoint.id,
            decisions: checkpoint.superseded.clone(),
        };
        events.push(new_event(actor, &record)?);
    }
    if !superseded.is_empty() {
        let record = DecisionSuperseded {
            correction: None,
            checkpoint: Some(checkpoint.id),
            decisions: superseded.to_vec(),
        };
        events.push(new_event(actor, &record)?);
    }
    Ok(events)
}

/// Returns the state in which the plan's sandboxes were created, as a checkpoint that is not stored.
fn initial_checkpoint(
    tx: &mut dyn Transaction,
    ids: &dyn Ids,
    plan: &Plan,
) -> std::result::Result<Checkpoint, StoreError> {
    let id = plan.identity.plan_id;
    let initial = RestorePoint::initial(tx, id)?;
    let sandboxes = tx.sandboxes_of(id)?;
    let created_at = sandboxes.iter().map(|it| it.created_at).min();
    Ok(Checkpoint {
        id: CheckpointId::new(ids.next()),
        plan_id: id,
        number: INITIAL_CHECKPOINT,
        trigger: CheckpointTrigger::ToolWrite,
        phase: Phase::Execute,
        attempt: plan.attempt,
        step: None,
        call_number: initial.call_number,
        decision_id: plan.decision_root_id,
        label: "before the first call".to_owned(),
        trees: initial.trees,
        superseded: initial.superseded,
        created_at: created_at.unwrap_or(plan.timestamps.created_at),
        undone_by: None,
    })
}

/// Fails if the checkpoint was undone.
fn require_not_undone(tx: &mut dyn Transaction, checkpoint: &Checkpoint) -> Result<()> {
    let Some(by) = checkpoint.undone_by else {
        return Ok(());
    };
    let kept = tx.checkpoints_of(checkpoint.plan_id)?;
    let checkpoint = checkpoint.number;
    Err(if kept.iter().any(|it| it.id == by) {
        ExecutionError::CheckpointUndone { checkpoint, by }
    } else {
        // Only a change of the sandboxes (a rebase, or a removed sandbox) marks checkpoints with an
        // id that is not a checkpoint.
        ExecutionError::CheckpointBaseChanged { checkpoint }
    })
}

/// Returns the active decisions about work after the checkpoint.
fn later_decisions(
    tx: &mut dyn Transaction,
    plan: PlanId,
    checkpoint: &Checkpoint,
) -> std::result::Result<Vec<DecisionId>, StoreError> {
    let about_work = |it: &Decision| {
        matches!(
            it.decision_type,
            DecisionType::ImplementationChoice
                | DecisionType::ToolInvocation
                | DecisionType::ValidationResponse
        )
    };
    // By the number of its call: a rejection is decided in the same moment as its checkpoint.
    let rejections = rejections_after(tx, plan, checkpoint.call_number)?;
    let later = |it: &Decision| about_work(it) && it.created_at > checkpoint.created_at;
    let is_undone = |it: &Decision| later(it) || rejections.contains(&it.decision_id);
    let decisions = tx.decisions_of(plan)?.into_iter();
    Ok(decisions
        .filter(|it| !it.is_superseded && is_undone(it))
        .map(|it| it.decision_id)
        .collect())
}

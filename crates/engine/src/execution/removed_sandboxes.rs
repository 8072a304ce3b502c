//! Sandboxes whose files are gone: collected after an apply, or removed by hand.
//!
//! What was done in one cannot be applied any more. Strategize and Execute begin again without it,
//! because their user asked for the work. Everything else refuses: `plan rebase` sends a finished
//! plan back to Execute.

use std::sync::Arc;

use cleveragents_domain::id::{CheckpointId, PlanId};
use cleveragents_domain::sandbox::{FolderState, SandboxRecord, SandboxState};
use cleveragents_domain::{Phase, Plan, PlanState, Position, StreamId};
use tokio::task::spawn_blocking;

use super::error::{ExecutionError, Result};
use super::executor::Executor;
use super::rollback::{RestorePoint, undo_after};
use super::workspace::change_sandbox_state;
use crate::ports::sandbox::{SandboxResult, Sandboxes};
use crate::runs::RunLease;

/// Returns whether the files of a sandbox are gone. One that is still to be made has none yet.
pub(super) fn is_removed(sandboxes: &dyn Sandboxes, record: &SandboxRecord) -> SandboxResult<bool> {
    match (record.state, record.folder) {
        (SandboxState::Creating, FolderState::Kept) => Ok(false),
        (_, FolderState::Leaving | FolderState::Gone) => Ok(true),
        (_, FolderState::Kept) => Ok(sandboxes.read_marker(record.id)?.is_none()),
    }
}

/// The refusal of work in a sandbox that was removed.
pub(super) fn removed_error(record: &SandboxRecord, again: RedoCommand) -> ExecutionError {
    ExecutionError::SandboxRemoved {
        plan: record.plan_id,
        resource: record.resource_name.clone(),
        again,
    }
}

/// The command that does the work of a plan again in a new sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedoCommand {
    Execute,
    Rebase,
}

impl RedoCommand {
    pub const fn command(self) -> &'static str {
        match self {
            Self::Execute => "agents plan execute",
            Self::Rebase => "agents plan rebase",
        }
    }

    /// A plan that has a result is sent back to Execute first.
    const fn for_position(position: Position) -> Self {
        match (position.phase(), position.state()) {
            (Phase::Execute, PlanState::Complete | PlanState::Constrained) | (Phase::Apply, _) => {
                Self::Rebase
            }
            _ => Self::Execute,
        }
    }
}

impl Executor {
    /// Returns those of these sandboxes whose files are gone.
    pub(crate) async fn removed_sandboxes(
        &self,
        records: Vec<SandboxRecord>,
    ) -> Result<Vec<SandboxRecord>> {
        let sandboxes = Arc::clone(&self.sandboxes);
        let removed = spawn_blocking(move || {
            let mut removed = Vec::new();
            for record in records {
                if is_removed(&*sandboxes, &record)? {
                    removed.push(record);
                }
            }
            Ok::<_, ExecutionError>(removed)
        });
        removed.await?
    }

    /// Fails if the files of one of the plan's sandboxes are gone.
    pub(super) async fn refuse_removed(&self, plan: PlanId) -> Result<()> {
        let removed = self
            .removed_sandboxes(self.sandboxes_of(plan).await?)
            .await?;
        match removed.first() {
            Some(record) => {
                let position = self.lifecycle.plan(plan).await?.position;
                Err(removed_error(record, RedoCommand::for_position(position)))
            }
            None => Ok(()),
        }
    }

    /// Gives up the work of a plan with a removed sandbox, so that all of it is done again in a new
    /// one. No call may count that was made in the old one: its changes are nowhere. Returns the plan
    /// as it is now.
    pub(super) async fn discard_removed(&self, run: &RunLease, known: &Plan) -> Result<Plan> {
        let plan = run.lease().plan;
        let removed = self
            .removed_sandboxes(self.sandboxes_of(plan).await?)
            .await?;
        if removed.is_empty() {
            return Ok(known.clone());
        }
        let (ids, actor) = (Arc::clone(&self.ids), run.lease().owner.to_string());
        run.write(self.operation("sandbox.give-up-removed"), move |tx| {
            let mut held = tx.plan_for_update(plan)?;
            held.last_completed_step = None;
            held.version = tx.update_plan(&held)?;
            let initial = RestorePoint::initial(tx, plan)?;
            let back = undo_after(tx, &*ids, &held, &initial, &actor)?;
            let mut events: Vec<_> = back.into_iter().map(|(_, event)| event).collect();
            // No checkpoint has this id: those that are closed by it cannot be gone back to.
            tx.undo_checkpoints(plan, 0, CheckpointId::new(ids.next()))?;
            for record in &removed {
                let record = tx.sandbox(record.id)?;
                let discarded = SandboxState::Discarded;
                events.push(change_sandbox_state(tx, record, discarded, &actor)?);
            }
            tx.append(StreamId::Plan(plan), &events)?;
            Ok::<_, ExecutionError>(held)
        })
        .await
    }
}

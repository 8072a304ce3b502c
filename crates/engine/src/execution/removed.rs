//! Sandboxes whose files are gone: collected after an apply, or removed by hand.
//!
//! What was done in one cannot be applied any more. Strategize and Execute begin again without it,
//! because their user asked for the work. Everything else refuses: `plan rebase` sends a finished
//! plan back to Execute.

use std::sync::Arc;

use cleveragents_domain::id::{CheckpointId, PlanId};
use cleveragents_domain::sandbox::{FolderState, SandboxRecord, SandboxState};
use cleveragents_domain::{Phase, Plan, Position, State, StreamId};
use tokio::task::spawn_blocking;

use super::error::{ExecutionError, Result};
use super::executor::Executor;
use super::rollback::{Earlier, set_back};
use super::workspace::change_sandbox;
use crate::ports::sandbox::{SandboxResult, Sandboxes};
use crate::runs::RunLease;

/// Returns whether the files of a sandbox are gone. One that is still to be made has none yet.
pub(super) fn is_removed(sandboxes: &dyn Sandboxes, record: &SandboxRecord) -> SandboxResult<bool> {
    match (record.state, record.folder) {
        (SandboxState::Creating, FolderState::Kept) => Ok(false),
        (_, FolderState::Leaving | FolderState::Gone) => Ok(true),
        (_, FolderState::Kept) => Ok(sandboxes.mark(record.id)?.is_none()),
    }
}

/// The refusal of work in a sandbox that was removed.
pub(super) fn removed_error(record: &SandboxRecord, again: WorkAgain) -> ExecutionError {
    ExecutionError::SandboxRemoved {
        plan: record.plan_id,
        resource: record.resource_name.clone(),
        again,
    }
}

/// The command that does the work of a plan again in a new sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkAgain {
    Execute,
    Rebase,
}

impl WorkAgain {
    pub const fn command(self) -> &'static str {
        match self {
            Self::Execute => "agents plan execute",
            Self::Rebase => "agents plan rebase",
        }
    }

    /// A plan that has a result is sent back to Execute first.
    const fn at(position: Position) -> Self {
        match (position.phase(), position.state()) {
            (Phase::Execute, State::Complete | State::Constrained) | (Phase::Apply, _) => {
                Self::Rebase
            }
            _ => Self::Execute,
        }
    }
}

impl Executor {
    /// Returns those of these sandboxes whose files are gone.
    pub(crate) async fn removed(&self, records: Vec<SandboxRecord>) -> Result<Vec<SandboxRecord>> {
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
        let removed = self.removed(self.sandboxes_of(plan).await?).await?;
        match removed.first() {
            Some(record) => {
                let position = self.lifecycle.plan(plan).await?.position;
                Err(removed_error(record, WorkAgain::at(position)))
            }
            None => Ok(()),
        }
    }

    /// Gives up the work of a plan with a removed sandbox, so that all of it is done again in a new
    /// one. No call may count that was made in the old one: its changes are nowhere. Returns the plan
    /// as it is now.
    pub(super) async fn give_up_removed(&self, run: &RunLease, known: &Plan) -> Result<Plan> {
        let plan = run.lease().plan;
        let removed = self.removed(self.sandboxes_of(plan).await?).await?;
        if removed.is_empty() {
            return Ok(known.clone());
        }
        let (ids, actor) = (Arc::clone(&self.ids), run.lease().owner.to_string());
        run.write(self.operation("sandbox.give-up-removed"), move |unit| {
            let mut held = unit.plan_for_update(plan)?;
            held.last_completed_step = None;
            held.version = unit.update_plan(&held)?;
            let beginning = Earlier::beginning(unit, plan)?;
            let back = set_back(unit, &*ids, &held, &beginning, &actor)?;
            let mut events: Vec<_> = back.into_iter().map(|(_, event)| event).collect();
            // No checkpoint has this id: those that are closed by it cannot be gone back to.
            unit.undo_checkpoints(plan, 0, CheckpointId::new(ids.next()))?;
            for record in &removed {
                let record = unit.sandbox(record.id)?;
                let discarded = SandboxState::Discarded;
                events.push(change_sandbox(unit, record, discarded, &actor)?);
            }
            unit.append(StreamId::Plan(plan), &events)?;
            Ok::<_, ExecutionError>(held)
        })
        .await
    }
}

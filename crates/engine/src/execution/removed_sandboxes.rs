//! Sandboxes whose files are gone: removed by gc after an apply, or by hand.
//!
//! Work done in such a sandbox cannot be applied any more. Strategize and Execute start again
//! without it, because the user asked for the work. Everything else fails: `plan rebase` sends a
//! finished plan back to Execute.

use std::sync::Arc;

use cleveragents_domain::id::{CheckpointId, PlanId};
use cleveragents_domain::sandbox::{FolderState, SandboxRecord, SandboxState};
use cleveragents_domain::{Phase, PlanState, Position, StreamId};
use tokio::task::spawn_blocking;

use super::error::{ExecutionError, Result};
use super::plan_run::PlanRun;
use super::services::EngineServices;
use super::workspace::change_sandbox_state;
use crate::undo::{RestorePoint, undo_after};
use cleveragents_ports::sandbox::{SandboxResult, Sandboxes};

/// Returns whether the files of a sandbox are gone. Returns false for a sandbox that was not
/// created yet.
pub(super) fn is_removed(sandboxes: &dyn Sandboxes, record: &SandboxRecord) -> SandboxResult<bool> {
    match (record.state, record.folder) {
        (SandboxState::Creating, FolderState::Kept) => Ok(false),
        (_, FolderState::Leaving | FolderState::Gone) => Ok(true),
        (_, FolderState::Kept) => Ok(sandboxes.read_marker(record.id)?.is_none()),
    }
}

/// Returns the error for work in a removed sandbox.
pub(super) fn removed_error(record: &SandboxRecord, again: RedoCommand) -> ExecutionError {
    ExecutionError::SandboxRemoved {
        plan: record.plan_id,
        resource: record.resource_name.clone(),
        again,
    }
}

/// The command that repeats the work of a plan in a new sandbox.
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

    /// A plan that has a result must be sent back to Execute first.
    const fn for_position(position: Position) -> Self {
        match (position.phase(), position.state()) {
            (Phase::Execute, PlanState::Complete | PlanState::Constrained) | (Phase::Apply, _) => {
                Self::Rebase
            }
            _ => Self::Execute,
        }
    }
}

impl EngineServices {
    /// Returns the sandboxes whose files are gone.
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
}

impl PlanRun {
    /// Undoes the work of a plan with a removed sandbox, so that all of it is repeated in a new
    /// one. Calls made in the old sandbox must not count, because their changes are lost.
    pub(super) async fn discard_removed(&mut self) -> Result<()> {
        let (plan, services) = (self.id(), &self.services);
        let removed = services
            .removed_sandboxes(services.sandboxes_of(plan).await?)
            .await?;
        if removed.is_empty() {
            return Ok(());
        }
        let (ids, actor) = (Arc::clone(&services.ids), self.owner_name());
        let operation = self.operation("sandbox.abandon-removed");
        let discarded = self.lease.write(operation, move |tx| {
            let mut held = tx.plan_for_update(plan)?;
            held.last_completed_step = None;
            held.version = tx.update_plan(&held)?;
            let initial = RestorePoint::initial(tx, plan)?;
            let back = undo_after(tx, &*ids, &held, &initial, &actor)?;
            let mut events: Vec<_> = back.into_iter().map(|(_, event)| event).collect();
            // No checkpoint has this id, so no rollback can return to the checkpoints marked with
            // it.
            tx.undo_checkpoints(plan, 0, CheckpointId::new(ids.next()))?;
            for record in &removed {
                let record = tx.sandbox(record.id)?;
                let discarded = SandboxState::Discarded;
                events.push(change_sandbox_state(tx, record, discarded, &actor)?);
            }
            tx.append(StreamId::Plan(plan), &events)?;
            Ok::<_, ExecutionError>(held)
        });
        self.plan = discarded.await?;
        self.calls.undo_after(0);
        Ok(())
    }
}

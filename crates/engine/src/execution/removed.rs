//! Sandboxes whose files are gone: collected after an apply, or removed by hand.
//!
//! What was done in one cannot be applied any more. Strategize begins again without it; every other
//! phase refuses, because doing the work again is for the user to ask for.

use std::sync::Arc;

use cleveragents_domain::StreamId;
use cleveragents_domain::id::{CheckpointId, PlanId};
use cleveragents_domain::sandbox::{FolderState, SandboxRecord, SandboxState};
use tokio::task::spawn_blocking;

use super::error::{ExecutionError, Result};
use super::executor::Executor;
use super::rollback::{Earlier, set_back};
use super::workspace::change_sandbox;
use crate::ports::StoreError;
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
pub(super) fn removed_error(record: &SandboxRecord) -> ExecutionError {
    ExecutionError::SandboxRemoved {
        plan: record.plan_id,
        resource: record.resource_name.clone(),
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
            Some(record) => Err(removed_error(record)),
            None => Ok(()),
        }
    }

    /// Gives up the work of a plan with a removed sandbox, so that all of it is done again in a new
    /// one. No call may count that was made in the old one: its changes are nowhere.
    pub(super) async fn give_up_removed(&self, run: &RunLease) -> Result<()> {
        let plan = run.lease().plan;
        let removed = self.removed(self.sandboxes_of(plan).await?).await?;
        if removed.is_empty() {
            return Ok(());
        }
        let (ids, actor) = (Arc::clone(&self.ids), run.lease().owner.to_string());
        run.write(self.operation("sandbox.give-up-removed"), move |unit| {
            let held = unit.plan_for_update(plan)?;
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
            Ok::<_, StoreError>(())
        })
        .await?;
        Ok(())
    }
}

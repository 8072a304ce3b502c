//! Finds missing or unusable targets and sandboxes before anything is prepared.

use std::sync::Arc;

use cleveragents_domain::sandbox::SandboxRecord;
use tokio::task::spawn_blocking;

use super::error::Result;
use super::{ApplyRun, ApplyService};
use cleveragents_ports::sandbox::SandboxError;
use cleveragents_ports::targets::{Conflict, ConflictReason};

impl ApplyService {
    /// Returns a conflict for each removed sandbox: there are no files to apply.
    pub(super) async fn removed_sandboxes(
        &self,
        sandboxes: &[SandboxRecord],
    ) -> Result<Vec<Conflict>> {
        let removed = self.services.removed_sandboxes(sandboxes.to_vec()).await?;
        let conflict = |it: SandboxRecord| Conflict {
            path: None,
            place: Some(it.resource_path),
            reason: ConflictReason::SandboxRemoved,
        };
        Ok(removed.into_iter().map(conflict).collect())
    }
}

impl ApplyRun<'_> {
    /// Returns a conflict for each resource that changes cannot be applied to now.
    pub(super) async fn unusable_targets(
        &self,
        sandboxes: &[SandboxRecord],
    ) -> Result<Vec<Conflict>> {
        let mut conflicts = self.service.removed_sandboxes(sandboxes).await?;
        for sandbox in sandboxes {
            let port = Arc::clone(&self.service.services.sandboxes);
            let (path, kind) = (sandbox.resource_path.clone(), sandbox.resource_type);
            let usable = spawn_blocking(move || port.check_usable(&path, kind)).await?;
            conflicts.extend(usable.err().map(|error| Conflict {
                path: None,
                place: Some(sandbox.resource_path.clone()),
                reason: conflict_reason(&error),
            }));
        }
        Ok(conflicts)
    }
}

fn conflict_reason(error: &SandboxError) -> ConflictReason {
    match error {
        SandboxError::NotAFolder { .. } | SandboxError::NotARepository { .. } => {
            ConflictReason::Gone
        }
        error => ConflictReason::Failed {
            reason: error.to_string(),
        },
    }
}

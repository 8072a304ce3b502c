//! Validates the tree that would be committed to a target that has moved.
//!
//! Execute validated the result on the plan's base commit. If the target has new commits, Apply
//! merges with them. The merged tree was never validated, so the gates run on it first.

use cleveragents_domain::TreeId;
use cleveragents_domain::apply_record::{ApplyDirection, ApplyPart, ApplyRecord};

use super::error::Result;
use super::{ApplyRun, ApplyService};
use crate::execution::MergeValidator;
use cleveragents_ports::StoreError;
use cleveragents_ports::targets::{ApplyEffect, ApplyIntent, Conflict, ConflictReason};

/// Treatment of a merge that was not validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnvalidatedMergePolicy {
    Validate,
    /// Stop the plan until it is applied again. For commands whose purpose is not this apply.
    Stop,
}

impl ApplyService {
    /// Returns a service for recovery work: where validations would have to run, the plan stops.
    #[must_use]
    pub fn without_validating(mut self) -> Self {
        self.unvalidated_merges = UnvalidatedMergePolicy::Stop;
        self
    }
}

impl ApplyRun<'_> {
    /// Returns a conflict if the new intent commits a merge on which required validations fail. A
    /// tree that an earlier intent of the part would have committed was already validated.
    pub(super) async fn merge_obstacle(
        &self,
        record: &ApplyRecord,
        part: &ApplyPart,
        intent: &ApplyIntent,
    ) -> Result<Option<Conflict>> {
        let Some(merged) =
            committed_tree(intent).filter(|_| record.direction == ApplyDirection::Apply)
        else {
            return Ok(None);
        };
        if part.intent.as_deref().and_then(committed_tree) == Some(merged) {
            return Ok(None);
        }
        let services = &self.service.services;
        let id = part.sandbox_id;
        let sandbox = services.store.read(move |tx| tx.sandbox(id)).await?;
        if sandbox.tree.as_ref().is_some_and(|it| it.files() == merged) {
            return Ok(None);
        }
        let validator = MergeValidator {
            services,
            plan: &self.run.plan,
            sandbox: &sandbox,
        };
        let reason = if !validator.has_gates().await? {
            return Ok(None);
        } else if self.service.unvalidated_merges == UnvalidatedMergePolicy::Stop {
            ConflictReason::Unvalidated
        } else {
            let tree = TreeId::new(merged, None).map_err(StoreError::internal)?;
            match validator.validate(&self.run.lease, tree).await? {
                Ok(summary) if summary.permits_apply() => return Ok(None),
                Ok(_) if self.is_forced() => return Ok(None),
                Ok(summary) => ConflictReason::Validations {
                    reason: summary.required_failures(),
                },
                // The validation was cancelled. The plan is cancelled when its run is released.
                Err(_) => ConflictReason::Unvalidated,
            }
        };
        Ok(Some(Conflict {
            path: None,
            place: Some(intent.resource.clone()),
            reason,
        }))
    }
}

/// Returns the tree that an intent commits.
fn committed_tree(intent: &ApplyIntent) -> Option<&str> {
    match &intent.effect {
        ApplyEffect::Commit(effect) => Some(&effect.new_tree),
        ApplyEffect::Files(_) | ApplyEffect::Patch(_) => None,
    }
}

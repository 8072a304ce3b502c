//! Validates what would be committed to a target that has moved since the result was validated.
//!
//! Execute validated the result on the commit that the plan began with. Where the target has other
//! commits by now, Apply merges with them, and what is committed is a tree that nobody has
//! validated: what gates runs on it first.

use cleveragents_domain::TreeId;
use cleveragents_domain::apply_record::{ApplyDirection, ApplyPart, ApplyRecord};

use super::ApplyService;
use super::attempt::from_json;
use super::error::Result;
use crate::ports::StoreError;
use crate::ports::targets::{ApplyEffect, ApplyIntent, Conflict, ConflictReason};
use crate::runs::RunLease;

/// What is done about a merge that was not validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnvalidatedMergePolicy {
    Validate,
    /// For commands that are about something else: the plan stops, to be applied again.
    Stop,
}

impl ApplyService {
    /// The same for work that others left: where validations would have to run, the plan stops.
    #[must_use]
    pub fn without_validating(mut self) -> Self {
        self.unvalidated_merges = UnvalidatedMergePolicy::Stop;
        self
    }

    /// Why a newly prepared intent may not be carried out, if it commits a merge on which required
    /// validations fail. What an earlier intent of the part would have committed was looked at then.
    pub(super) async fn merge_obstacle(
        &self,
        run: &RunLease,
        (record, part): (&ApplyRecord, &ApplyPart),
        intent: &ApplyIntent,
    ) -> Result<Option<Conflict>> {
        let Some(merged) =
            committed_tree(intent).filter(|_| record.direction == ApplyDirection::Apply)
        else {
            return Ok(None);
        };
        let earlier: Option<ApplyIntent> = match &part.intent {
            Some(earlier) => from_json(Some(earlier.clone()))?,
            None => None,
        };
        if earlier.as_ref().and_then(committed_tree) == Some(merged) {
            return Ok(None);
        }
        let executor = &self.executor;
        let (id, plan) = (part.sandbox_id, record.plan_id);
        let load = move |tx: &mut dyn crate::ports::Transaction| {
            Ok::<_, StoreError>((tx.sandbox(id)?, tx.plan(plan)?))
        };
        let (sandbox, plan) = executor.store.read(load).await?;
        if sandbox.tree.as_ref().is_some_and(|it| it.files() == merged) {
            return Ok(None);
        }
        let reason = if !executor.has_gates(&plan, &sandbox).await? {
            return Ok(None);
        } else if self.unvalidated_merges == UnvalidatedMergePolicy::Stop {
            ConflictReason::Unvalidated
        } else {
            let tree = TreeId::new(merged, None).map_err(StoreError::internal)?;
            let validated = executor
                .validate_merge(run, (&plan, &sandbox), tree)
                .await?;
            match validated {
                Ok(summary) if summary.permits_apply() => return Ok(None),
                Ok(summary) => ConflictReason::Validations {
                    reason: summary.required_failures(),
                },
                // The plan is cancelled when its run is released.
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

/// The tree that an intent commits.
fn committed_tree(intent: &ApplyIntent) -> Option<&str> {
    match &intent.effect {
        ApplyEffect::Commit(effect) => Some(&effect.new_tree),
        ApplyEffect::Files(_) | ApplyEffect::Patch(_) => None,
    }
}

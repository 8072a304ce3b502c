//! Recovery: finishes attempts of processes that died. Later commands call it.

use cleveragents_domain::apply_record::{ApplyDirection, ApplyRecord, ApplyState};
use cleveragents_domain::id::{ApplyId, PlanId};
use cleveragents_domain::{Phase, Plan, PlanState};

use super::error::{ApplyFailure, Result};
use super::{ApplyOutcome, ApplyRun, ApplyService, Unapplied};
use crate::execution::{PlanRun, own_plan};
use crate::runs::ClaimOutcome;
use cleveragents_ports::Slots;

/// An attempt that was recovered.
#[derive(Debug, Clone, PartialEq)]
pub struct RecoveredApply {
    pub plan: Plan,
    pub direction: ApplyDirection,
    pub outcome: RecoveryOutcome,
}

/// Outcome of recovering one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoveryOutcome {
    /// It was decided, and is finished now.
    Finished,
    /// It was not decided, and is undone; nothing was changed.
    Aborted,
    /// It stopped, because a target has changed.
    Stopped,
}

/// Outcome of recovering all attempts.
#[derive(Debug, Default)]
pub struct RecoveryReport {
    pub done: Vec<RecoveredApply>,
    /// Attempts that could not be finished now. The next command retries them.
    pub failed: Vec<FailedRecovery>,
}

/// An attempt that could not be finished.
#[derive(Debug)]
pub struct FailedRecovery {
    pub direction: ApplyDirection,
    pub error: ApplyFailure,
}

impl ApplyService {
    /// Recovers every attempt on this machine whose owner is gone. Skips a decided apply of the
    /// plan `abandoned`: the caller aborts it.
    pub async fn recover(&self, abandoned: Option<PlanId>) -> Result<RecoveryReport> {
        let left = self
            .services
            .store
            .read(|tx| tx.unfinished_applies())
            .await?;
        let mut recovery = RecoveryReport::default();
        let is_abandoned = |it: &ApplyRecord| {
            (it.state, it.direction) == (ApplyState::Decided, ApplyDirection::Apply)
                && Some(it.plan_id) == abandoned
        };
        // Targets are files of one machine. Another node can neither check nor change them.
        let is_left = |it: &ApplyRecord| it.node == self.services.node && !is_abandoned(it);
        for record in left.into_iter().filter(is_left) {
            let claimed = self
                .services
                .runs
                .claim(record.plan_id, Phase::Apply, Slots::Shared)
                .await?;
            // A live owner finishes its own attempt.
            let ClaimOutcome::Won(run) = claimed else {
                continue;
            };
            let recovered = own_plan(&self.services, run, async |run: &mut PlanRun| {
                self.forward(run).recover_one(record.id).await
            });
            // A failure must not prevent the recovery of other attempts.
            match recovered.await {
                Ok(owned) => recovery.done.extend(owned.outcome),
                Err(error) => recovery.failed.push(FailedRecovery {
                    direction: record.direction,
                    error,
                }),
            }
        }
        Ok(recovery)
    }
}

impl ApplyRun<'_> {
    async fn recover_one(&mut self, id: ApplyId) -> Result<Option<RecoveredApply>> {
        // Read after the claim: its owner may have finished it just before.
        let store = &self.service.services.store;
        let record = store.read(move |tx| tx.apply(id)).await?;
        let direction = record.direction;
        let outcome = match (record.state, direction) {
            (ApplyState::Decided, ApplyDirection::Apply) => {
                match self.commit_decided(record, None).await? {
                    ApplyOutcome::Applied { .. } => RecoveryOutcome::Finished,
                    _ => RecoveryOutcome::Stopped,
                }
            }
            (ApplyState::Decided, ApplyDirection::Unapply) => {
                let mut reversal = self.service.reversal(self.run);
                match reversal.finish_unapply(record, None).await? {
                    Unapplied::Stopped { .. } => RecoveryOutcome::Stopped,
                    _ => RecoveryOutcome::Finished,
                }
            }
            (ApplyState::Preparing, direction) => {
                let processing = self.run.plan.position.state() == PlanState::Processing;
                let fails = match direction {
                    ApplyDirection::Apply if processing => {
                        Some("Apply was interrupted before anything was changed")
                    }
                    _ => None,
                };
                let reason = "its process ended before the decision";
                self.service
                    .log(self.run)
                    .abort_prepared_and_fail(record, reason, fails)
                    .await?;
                RecoveryOutcome::Aborted
            }
            // Ended meanwhile by its owner.
            _ => return Ok(None),
        };
        Ok(Some(RecoveredApply {
            plan: self.run.plan.clone(),
            direction,
            outcome,
        }))
    }
}

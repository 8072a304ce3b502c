//! Recovery: finishes attempts of processes that died. Later commands call it.

use cleveragents_domain::apply_record::{ApplyDirection, ApplyRecord, ApplyState};
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{Phase, Plan, PlanState};

use super::error::{ApplyFailure, Result};
use super::{ApplyOutcome, ApplyRun, ApplyService, Unapplied};
use crate::runs::ClaimOutcome;
use cleveragents_ports::{Slots, StoreError};

/// Outcome of recovering one attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum RecoveredApply {
    /// It was decided, and is finished now.
    Finished(Plan),
    /// It was not decided, and is undone; nothing was changed.
    Aborted(Plan),
    /// It stopped, because a target has changed.
    Stopped(Plan),
}

/// Outcome of recovering all attempts.
#[derive(Debug, Default)]
pub struct RecoveryReport {
    pub done: Vec<RecoveredApply>,
    /// Attempts that could not be finished now. The next command retries them.
    pub failed: Vec<ApplyFailure>,
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
            let alive = run.keep_alive();
            let result = self.forward(&run).recover_one(record).await;
            drop(alive);
            let released = self.services.lifecycle.release(run).await;
            // A failure must not prevent the recovery of other attempts.
            match result {
                Ok(done) => recovery.done.extend(done),
                Err(error) => recovery.failed.push(error),
            }
            recovery.failed.extend(released.err().map(Into::into));
        }
        Ok(recovery)
    }
}

impl ApplyRun<'_> {
    async fn recover_one(&self, record: ApplyRecord) -> Result<Option<RecoveredApply>> {
        // Read again: its owner may have finished it just before our claim.
        let (plan, record) = self
            .service
            .services
            .store
            .read(move |tx| Ok::<_, StoreError>((tx.plan(record.plan_id)?, tx.apply(record.id)?)))
            .await?;
        Ok(match (record.state, record.direction) {
            (ApplyState::Decided, ApplyDirection::Apply) => {
                match self.commit_decided(record, None).await? {
                    ApplyOutcome::Applied { plan, .. } => Some(RecoveredApply::Finished(plan)),
                    outcome => Some(RecoveredApply::Stopped(outcome.plan().clone())),
                }
            }
            (ApplyState::Decided, ApplyDirection::Unapply) => {
                match self
                    .service
                    .reversal(self.run)
                    .finish_unapply(&plan, record, None)
                    .await?
                {
                    Unapplied::Stopped { plan, .. } => Some(RecoveredApply::Stopped(plan)),
                    _ => Some(RecoveredApply::Finished(plan)),
                }
            }
            (ApplyState::Preparing, direction) => {
                let processing = plan.position.state() == PlanState::Processing;
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
                let plan = self
                    .service
                    .services
                    .lifecycle
                    .plan(plan.identity.plan_id)
                    .await?;
                Some(RecoveredApply::Aborted(plan))
            }
            _ => None,
        })
    }
}

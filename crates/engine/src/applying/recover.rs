//! Finishing what a process that died left: by whoever comes next.

use cleveragents_domain::application::{ApplyRecord, ApplyState, Direction};
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{Phase, Plan, State};

use super::error::{ApplyFailure, Result};
use super::{ApplyOutcome, ApplyService, Unapplied};
use crate::ports::{Slots, StoreError};
use crate::runs::{Outcome, RunLease};

/// What became of an attempt that somebody else had begun.
#[derive(Debug, Clone, PartialEq)]
pub enum Recovered {
    /// It was decided, and is done now.
    Finished(Plan),
    /// It was not decided, and is taken back: nothing was changed.
    TakenBack(Plan),
    /// Somebody changed a target since.
    Stopped(Plan),
}

/// What came of going on with all that was left.
#[derive(Debug, Default)]
pub struct Recovery {
    pub done: Vec<Recovered>,
    /// What could not be finished now; the next command tries again.
    pub failed: Vec<ApplyFailure>,
}

impl ApplyService {
    /// Goes on with every attempt on this machine whose owner is gone. A decided apply of the plan
    /// in `abandoned` is left: the caller aborts it.
    pub async fn recover(&self, abandoned: Option<PlanId>) -> Result<Recovery> {
        let left = self
            .executor
            .store
            .read(|unit| unit.unfinished_applies())
            .await?;
        let mut recovery = Recovery::default();
        let is_abandoned = |it: &ApplyRecord| {
            (it.state, it.direction) == (ApplyState::Decided, Direction::Apply)
                && Some(it.plan_id) == abandoned
        };
        let is_left = |it: &ApplyRecord| it.node == self.executor.node && !is_abandoned(it);
        for record in left.into_iter().filter(is_left) {
            let claimed = self
                .executor
                .runs
                .claim(record.plan_id, Phase::Apply, Slots::Shared)
                .await?;
            let Outcome::Won(run) = claimed else {
                continue;
            };
            let alive = run.keep_alive();
            let worked = self.recover_one(&run, record).await;
            drop(alive);
            let given_back = self.executor.lifecycle.give_back(run).await;
            // One that cannot be finished now keeps no other from it.
            match worked {
                Ok(done) => recovery.done.extend(done),
                Err(error) => recovery.failed.push(error),
            }
            recovery.failed.extend(given_back.err().map(Into::into));
        }
        Ok(recovery)
    }

    async fn recover_one(&self, run: &RunLease, record: ApplyRecord) -> Result<Option<Recovered>> {
        // Its owner may have ended it just before it was claimed.
        let (plan, record) = self
            .executor
            .store
            .read(move |unit| {
                Ok::<_, StoreError>((unit.plan(record.plan_id)?, unit.apply(record.id)?))
            })
            .await?;
        Ok(match (record.state, record.direction) {
            (ApplyState::Decided, Direction::Apply) => {
                match self.go_forward(run, record, None).await? {
                    ApplyOutcome::Applied { plan, .. } => Some(Recovered::Finished(plan)),
                    outcome => Some(Recovered::Stopped(outcome.plan().clone())),
                }
            }
            (ApplyState::Decided, Direction::Unapply) => {
                match self.finish_back(run, &plan, record, None).await? {
                    Unapplied::Stopped { plan, .. } => Some(Recovered::Stopped(plan)),
                    _ => Some(Recovered::Finished(plan)),
                }
            }
            (ApplyState::Preparing, direction) => {
                let processing = plan.position.state() == State::Processing;
                let fails = match direction {
                    Direction::Apply if processing => {
                        Some("Apply was interrupted before anything was changed")
                    }
                    _ => None,
                };
                let reason = "its owner died before the decision";
                self.take_back_and_fail(run, record, reason, fails).await?;
                let plan = self.executor.lifecycle.plan(plan.identity.plan_id).await?;
                Some(Recovered::TakenBack(plan))
            }
            _ => None,
        })
    }
}

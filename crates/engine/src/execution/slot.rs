//! A plan whose turn has not come says so: it waits for a slot, owned by nobody.

use std::pin::pin;
use std::sync::Arc;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{Move, State, Waiting};
use tokio::sync::{OwnedMutexGuard, watch};
use tokio::time::timeout;

use super::error::{ExecutionError, Result};
use super::executor::{Executor, POLL};
use crate::lifecycle::{Repeats, Request, move_plan};
use crate::ports::{Holder, Stopped};
use crate::runs::RunLease;

/// What came of waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waited {
    /// It is worth asking for a slot.
    Ask,
    /// The plan was finished meanwhile.
    Over,
}

impl Executor {
    /// Waits behind those of this process that wait already: only the first of them looks for a
    /// slot, so that a hundred who wait cost no more than one.
    pub(super) async fn stand_in_line(
        &self,
        plan: PlanId,
        line: &mut Option<OwnedMutexGuard<()>>,
    ) -> Result<Waited> {
        let mut first = pin!(Arc::clone(&self.line).lock_owned());
        loop {
            if let Ok(guard) = timeout(POLL, &mut first).await {
                *line = Some(guard);
                return Ok(Waited::Ask);
            }
            if self.is_over(plan).await? {
                return Ok(Waited::Over);
            }
        }
    }

    /// Waits until one of those who have the slots is gone. Looking writes nothing: a claim that
    /// cannot win would be a commit, of which everybody who waits would hear and claim again.
    pub(super) async fn wait_for_room(
        &self,
        plan: PlanId,
        mut hints: watch::Receiver<u64>,
        running: &[Holder],
    ) -> Result<Waited> {
        while self.runs.all_run(running).await? {
            let _ = timeout(POLL, hints.changed()).await;
            if self.is_over(plan).await? {
                return Ok(Waited::Over);
            }
        }
        Ok(Waited::Ask)
    }

    /// Whether there is nothing to wait for any more; an error if this process is to end.
    async fn is_over(&self, plan: PlanId) -> Result<bool> {
        if *self.interrupt.borrow() {
            return Err(ExecutionError::Stopped(Stopped::Interrupted));
        }
        Ok(self.lifecycle.plan(plan).await?.position.is_terminal())
    }

    /// Puts on record that the plan waits for a slot, unless that is known, or it is no longer
    /// for us to say.
    pub(super) async fn wait_for_slot(&self, plan: PlanId) -> Result<()> {
        let ids = Arc::clone(&self.ids);
        let actor = self.runs.owner().to_string();
        let known = self.lifecycle.plan(plan).await?;
        if !is_free(&known) {
            return Ok(());
        }
        self.store
            .write(self.operation("plan.wait-for-slot"), move |unit| {
                let run = unit.hold_run(plan)?;
                let held = unit.plan_for_update(plan)?;
                // Whoever has its run now says how it stands.
                if run.is_none() && is_free(&held) {
                    let request = Request {
                        plan,
                        asked: Move::Wait(Waiting::Slot),
                        actor: actor.clone(),
                        reason: None,
                    };
                    move_plan(unit, &*ids, &request, Repeats::AreRefused)?;
                }
                Ok::<_, ExecutionError>(())
            })
            .await
    }

    /// The wait is over for the plan whose run this is.
    pub(super) async fn take_slot(&self, run: &RunLease) -> Result<()> {
        let plan = run.lease().plan;
        let waiting = self.lifecycle.plan(plan).await?.position.waiting();
        if waiting != Some(Waiting::Slot) {
            return Ok(());
        }
        let ids = Arc::clone(&self.ids);
        let request = Request {
            plan,
            asked: Move::Resume,
            actor: run.lease().owner.to_string(),
            reason: None,
        };
        run.write(self.operation("plan.take-slot"), move |unit| {
            move_plan(unit, &*ids, &request, Repeats::AreRefused)?;
            Ok::<_, ExecutionError>(())
        })
        .await
    }
}

/// Whether the plan is to be taken up, and nothing else is said of it.
fn is_free(plan: &cleveragents_domain::Plan) -> bool {
    plan.position.state() == State::Queued && plan.position.waiting().is_none()
}

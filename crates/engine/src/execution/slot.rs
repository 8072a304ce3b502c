//! A plan whose turn has not come says so: it waits for a slot, owned by nobody.

use std::sync::Arc;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{Move, State, Waiting};

use super::error::{ExecutionError, Result};
use super::executor::Executor;
use crate::lifecycle::{Repeats, Request, move_plan};
use crate::runs::RunLease;

impl Executor {
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

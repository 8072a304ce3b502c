//! `plan.cancel`

use std::time::Duration;

use cleveragents_api::plan::cancel::{
    CancelledChildPlans, CancelledPlan, CancelledPlanSandbox, PreservationStatus,
};
use cleveragents_api::plan::{PlanCancel, PlanOwner, PlanSummary};
use cleveragents_api::{ExitClass, FailureKind, NextStep, Reply};
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{Plan, PlanState, StreamId};
use cleveragents_engine::journal::Tail;
use cleveragents_engine::lifecycle::{CancelOutcome, PlanMoveOutcome};
use tokio::time::timeout;

use super::{PlanWork, continue_command};
use crate::app::{App, Caller, Handler, RecoveryPolicy};
use crate::execution::end_leftover_commands;
use crate::failure::RequestError;
use crate::plan::abandon::abandon_apply;
use crate::plan::find::find_plan;
use crate::plan::owner::plan_owner;
use crate::plan::start_over::start_over_step;
use crate::plan::work::plan_work;
use crate::services::Services;

const DEFAULT_REASON: &str = "cancelled by hand";
/// Seconds to wait for the process that runs the plan.
const DEFAULT_WAIT: u64 = 30;

impl Handler<PlanCancel> for App {
    const RECOVERY: RecoveryPolicy = RecoveryPolicy::ByHandler;

    async fn handle(
        &self,
        request: PlanCancel,
        caller: &Caller,
    ) -> Result<Reply<CancelledPlan>, RequestError> {
        let reason = request.reason.as_deref().unwrap_or(DEFAULT_REASON);
        let reason = self.services.mask_secrets(reason)?;
        let id = find_plan(&self.services, &request.plan)
            .await?
            .identity
            .plan_id;
        // Before the move: a plan past the point of no return cannot be cancelled until its apply
        // is aborted.
        abandon_apply(&self.services, id, caller).await?;
        // Also before the move: once the plan is cancelled, no owner looks for commands of a dead
        // one.
        end_leftover_commands(&self.services, id, caller).await;
        match self
            .services
            .lifecycle()
            .cancel(id, &reason, &caller.who)
            .await?
        {
            CancelOutcome::Done(PlanMoveOutcome::Moved(plan)) => {
                cancelled_reply(&self.services, &plan, "Plan cancelled").await
            }
            CancelOutcome::Done(PlanMoveOutcome::Unchanged(plan)) => {
                not_cancelled_reply(&self.services, &plan).await
            }
            CancelOutcome::Requested(plan) => {
                let seconds = request.wait.unwrap_or(DEFAULT_WAIT);
                wait_for_cancel(&self.services, &plan, Duration::from_secs(seconds)).await
            }
        }
    }
}

/// Waits until the owner of the plan has stopped it. Fails if that takes too long.
async fn wait_for_cancel(
    services: &Services,
    plan: &Plan,
    limit: Duration,
) -> Result<Reply<CancelledPlan>, RequestError> {
    let id = plan.identity.plan_id;
    match timeout(limit, follow_until_finished(services, id)).await {
        Ok(finished) => {
            let plan = finished?;
            match plan.position.state() {
                PlanState::Cancelled => cancelled_reply(services, &plan, "Plan cancelled").await,
                _ => not_cancelled_reply(services, &plan).await,
            }
        }
        Err(_) => {
            let owner = plan_owner(services, id).await?;
            Err(not_stopped_failure(owner.as_ref(), plan))
        }
    }
}

async fn follow_until_finished(services: &Services, id: PlanId) -> Result<Plan, RequestError> {
    let lifecycle = services.lifecycle();
    // From the start, so that no event since the request is missed.
    let mut tail = Tail::of_stream(services.store().clone(), StreamId::Plan(id), 0);
    loop {
        let plan = lifecycle.plan(id).await?;
        if plan.position.is_terminal() {
            return Ok(plan);
        }
        tail.next().await?;
    }
}

async fn cancelled_reply(
    services: &Services,
    plan: &Plan,
    message: impl Into<String>,
) -> Result<Reply<CancelledPlan>, RequestError> {
    let work = plan_work(services, plan).await?;
    let start_over = start_over_step(services, plan).await?;
    let recovery = services.adapters().next_step_text(&start_over);
    Ok(Reply::new(answer(plan, &work, recovery)).info(message))
}

/// Returns the reply for a plan that can no longer be cancelled.
async fn not_cancelled_reply(
    services: &Services,
    plan: &Plan,
) -> Result<Reply<CancelledPlan>, RequestError> {
    let message = format!("nothing to cancel: the plan is at {}", plan.position);
    cancelled_reply(services, plan, message).await
}

fn answer(plan: &Plan, work: &PlanWork, recovery: String) -> CancelledPlan {
    let is_cancelled = plan.position.state() == PlanState::Cancelled;
    let sandbox = CancelledPlanSandbox {
        status: if work.are_sandboxes_kept() {
            PreservationStatus::Preserved
        } else {
            PreservationStatus::Removed
        },
        files_modified: work.paths,
        checkpoints: work.checkpoints,
    };
    let children = work.child_plans;
    CancelledPlan {
        plan: PlanSummary::from(plan),
        reason: plan.error_message.clone(),
        cancelled_at: plan.timestamps.finished_at.filter(|_| is_cancelled),
        sandbox: (!work.sandboxes.is_empty()).then_some(sandbox),
        child_plans: CancelledChildPlans {
            completed: children.complete,
            cancelled: children.cancelled,
            // Without children the question has no answer; `false` would report a loss.
            artifacts_preserved: (children.total > 0).then_some(children.are_sandboxes_kept),
        },
        recovery: vec![recovery],
    }
}

/// The owner was asked to stop and has not done so in time.
fn not_stopped_failure(owner: Option<&PlanOwner>, plan: &Plan) -> RequestError {
    let id = plan.identity.plan_id;
    let what = format!("plan {} was asked to stop and has not yet", plan.name);
    let failure = RequestError::new(ExitClass::Temporary, what)
        .kind(FailureKind::CancelRequested)
        .with_plan(plan)
        .with_facts(|facts| facts.pid = Some(owner.and_then(|it| it.pid)));
    let failure = match owner {
        None => failure.hint(NextStep::send(&PlanCancel::new(id))),
        Some(owner) if !owner.responds => failure.because(format!(
            "{} runs it, does not respond and may be stopped",
            owner.describe()
        )),
        Some(owner) => failure.because(format!(
            "{} runs it and decides when it is safe to stop",
            owner.describe()
        )),
    };
    let command = owner.and_then(continue_command);
    command
        .into_iter()
        .fold(failure, RequestError::hint)
        .hint(NextStep::Watch { plan: id })
}

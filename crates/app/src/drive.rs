//! Runs plans: [`App::drive`] does what work requests have recorded.

use cleveragents_api::plan::drive::DriveAnswer;
use cleveragents_api::{Failure, Reply};
use cleveragents_domain::apply_record::Destination;
use cleveragents_domain::approval::ApprovedApply;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{Phase, Plan, PlanState};
use cleveragents_engine::applying::PlanApplyRequest;
use cleveragents_engine::execution::{AutoApply, ExecuteOutcome, ExecutionError};
use cleveragents_ports::StopReason;

use crate::app::{App, Caller};
use crate::execution::apply_request;
use crate::failure::{RequestError, interrupted_failure};
use crate::plan::{applied_reply, executed_reply, with_sandbox_warnings};
use crate::services::Services;

impl App {
    /// Runs a plan as far as its profile and the recorded approvals allow. Stops at a point from
    /// which the plan can be resumed when the caller cancels.
    pub async fn drive(
        &self,
        plan: PlanId,
        caller: &Caller,
    ) -> Result<Reply<DriveAnswer>, Failure> {
        Ok(try_drive(&self.services, plan, caller).await?)
    }
}

async fn try_drive(
    services: &Services,
    id: PlanId,
    caller: &Caller,
) -> Result<Reply<DriveAnswer>, RequestError> {
    let plan = services.lifecycle().plan(id).await?;
    // An apply that the user requested is durable in the plan's row, so any process can drive it
    // after the one that accepted it ended.
    if is_apply_queued(&plan) {
        return drive_apply(services, plan, caller).await;
    }
    // Built only now: applying a queued plan needs no models.
    let executor = services.executor(caller)?;
    let outcome = executor.drive(plan).await;
    let outcome = outcome.map_err(|error| stopped_failure(error, id))?;
    let ExecuteOutcome::Complete {
        auto_apply: AutoApply::Yes,
        plan,
    } = &outcome
    else {
        return executed_reply(services, &outcome).await;
    };
    // The result is stored, so stopping here loses nothing: the next `drive` finds the plan
    // complete and continues with the apply.
    if caller.has_cancelled() {
        return Err(interrupted_failure(id));
    }
    // The approval is read from the plan, not from this caller: a worker may run a plan that
    // another user approved.
    let request = PlanApplyRequest {
        version: Some(plan.version),
        ..apply_request_of(plan, caller)
    };
    let outcome = services.apply_service(caller)?.apply(&request).await?;
    let reply = applied_reply(services, &outcome).await?;
    with_sandbox_warnings(services, reply, outcome.plan()).await
}

/// Applies a plan that `plan.apply` has queued.
async fn drive_apply(
    services: &Services,
    plan: Plan,
    caller: &Caller,
) -> Result<Reply<DriveAnswer>, RequestError> {
    // The request is stored, so stopping before the claim loses nothing.
    if caller.has_cancelled() {
        return Err(interrupted_failure(plan.identity.plan_id));
    }
    let outcome = services.apply_service(caller)?.drive(plan).await?;
    applied_reply(services, &outcome).await
}

/// Returns the request to apply a plan: as the user approved it, or for a profile that applies
/// by itself, to the destination of the plan.
pub(crate) fn apply_request_of(plan: &Plan, caller: &Caller) -> PlanApplyRequest {
    let id = plan.identity.plan_id;
    match plan.approvals.apply.clone() {
        Some(ApprovedApply {
            // The commit gets the name and the author of the user who approved it, not of the
            // process that runs it.
            by,
            destination,
            author,
            forced,
        }) => PlanApplyRequest {
            plan: id,
            destination,
            author,
            actor: by,
            version: None,
            forced,
        },
        None => {
            let destination = plan.destination.clone();
            apply_request(id, destination.unwrap_or(Destination::Current), caller)
        }
    }
}

/// Whether the user has requested an apply that has not ended.
fn is_apply_queued(plan: &Plan) -> bool {
    let at = plan.position;
    // `Processing` is included because the process that applied it may have died after it started.
    let is_open = matches!(at.state(), PlanState::Queued | PlanState::Processing);
    at.phase() == Phase::Apply && is_open && plan.approvals.apply.is_some()
}

/// Converts the error of an execution; an interrupted one can be resumed.
pub(crate) fn stopped_failure(error: ExecutionError, id: PlanId) -> RequestError {
    match error {
        ExecutionError::Stopped(StopReason::Interrupted) => interrupted_failure(id),
        other => other.into(),
    }
}

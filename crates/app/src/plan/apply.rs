//! `plan.apply`, and the reply of a plan that was applied.

use cleveragents_api::plan::apply::{
    AppliedLifecycle, AppliedPlan, AppliedResource, ApplyPreview, LeftoverState, PlanPreviewApply,
    SandboxCleanup,
};
use cleveragents_api::plan::drive::DriveAnswer;
use cleveragents_api::plan::{PlanApply, PlanCost, PlanUnapply};
use cleveragents_api::{ExitClass, FailureKind, NextStep, Reply};
use cleveragents_domain::apply_record::{ApplyRecord, Destination};
use cleveragents_domain::id::PlanId;
use cleveragents_domain::sandbox::{FolderState, SandboxRecord};
use cleveragents_domain::{
    EventBody, Phase, Plan, PlanState, PointOfNoReturn, Position, ResourceType, StreamId,
};
use cleveragents_engine::applying::{ApplyOutcome, ApplyQueueOutcome, PlanApplyRequest};
use cleveragents_ports::StoreError;

use super::elapsed;
use super::work::PlanWork;
use crate::app::{App, Caller, Handler, RecoveryPolicy};
use crate::execution::apply_request;
use crate::failure::conflicts::{blocked_apply_failure, stopped_apply_failure};
use crate::failure::{RequestError, interrupted_request_failure};
use crate::next_steps::{diff_step, force_checks_step, revert_step, status_step};
use crate::plan::find::find_plan;
use crate::plan::result_warnings::result_secret_warnings;
use crate::plan::start_over::start_over_step;
use crate::plan::work::plan_work;
use crate::services::Services;
use crate::text::format_duration;

/// The number of events in which the first request to work on a plan is found. Before it come its
/// creation and its rules.
const FIRST_EVENTS: u32 = 200;

impl Handler<PlanApply> for App {
    async fn handle(
        &self,
        request: PlanApply,
        caller: &Caller,
    ) -> Result<Reply<AppliedPlan>, RequestError> {
        let id = find_plan(&self.services, &request.plan)
            .await?
            .identity
            .plan_id;
        // The recovery of other applies may have taken long.
        if caller.has_cancelled() {
            return Err(interrupted_request_failure(id, &request));
        }
        let service = self.services.apply_service(caller)?;
        let destination = request.to.clone().unwrap_or(Destination::Current);
        let forced = match &request.force_checks {
            Some(reason) if reason.trim().is_empty() => return Err(no_reason_failure()),
            Some(reason) => Some(self.services.mask_secrets(reason.trim())?),
            None => None,
        };
        let apply = PlanApplyRequest {
            forced,
            ..apply_request(id, destination, caller)
        };
        // The user states that the targets are as they should be. Nothing is driven afterwards.
        if request.mark_applied {
            return apply_outcome_reply(&self.services, &service.settle(&apply).await?).await;
        }
        match service.enqueue(&apply).await? {
            ApplyQueueOutcome::Queued(plan) => {
                let work = plan_work(&self.services, &plan).await?;
                Ok(Reply::new(applied_plan(&self.services, &plan, &work, None)).info("Queued"))
            }
            ApplyQueueOutcome::Unchanged(plan, apply) => {
                let outcome = ApplyOutcome::Unchanged {
                    plan: *plan,
                    apply: apply.map(|it| *it),
                };
                apply_outcome_reply(&self.services, &outcome).await
            }
        }
    }
}

impl Handler<PlanPreviewApply> for App {
    // Sent after `App::recover_applies`, and the apply that the user is asked about recovers too.
    const RECOVERY: RecoveryPolicy = RecoveryPolicy::ByHandler;

    async fn handle(
        &self,
        request: PlanPreviewApply,
        _: &Caller,
    ) -> Result<Reply<ApplyPreview>, RequestError> {
        let plan = find_plan(&self.services, &request.plan).await?;
        let id = plan.identity.plan_id;
        Ok(Reply::new(ApplyPreview {
            plan: (&plan).into(),
            has_begun: has_begun(plan.position),
            is_run: was_started_by_run(&self.services, id).await?,
            destination: plan.destination.clone(),
            secret_warnings: result_secret_warnings(&self.services, id).await?,
        }))
    }
}

/// Returns whether the first request to work on the plan approved its strategy in advance, which
/// only `plan.run` does.
async fn was_started_by_run(services: &Services, plan: PlanId) -> Result<bool, StoreError> {
    let read = services
        .store()
        .read(move |tx| tx.events(StreamId::Plan(plan), 0, FIRST_EVENTS));
    let requested = read
        .await?
        .into_iter()
        .find_map(|event| match event.known_body() {
            Some(EventBody::ExecuteRequested(it)) => Some(it.0),
            _ => None,
        });
    Ok(requested.is_some_and(|it| it.approvals.strategy.is_some()))
}

fn no_reason_failure() -> RequestError {
    RequestError::usage("the reason to apply the plan although checks fail is empty")
        .kind(FailureKind::NoReason)
        .because("it becomes a decision of the plan")
        .hint("give one with --force-checks REASON")
}

/// Returns whether an apply of the plan is in progress, was interrupted, or stopped after its
/// decision.
fn has_begun(at: Position) -> bool {
    at.phase() == Phase::Apply
        && !at.is_terminal()
        && (at.state() == PlanState::Processing
            || at.point_of_no_return() == PointOfNoReturn::Passed)
}

/// Returns the reply for a plan that was applied.
pub(crate) async fn applied_reply(
    services: &Services,
    outcome: &ApplyOutcome,
) -> Result<Reply<DriveAnswer>, RequestError> {
    let reply = apply_outcome_reply(services, outcome).await?;
    Ok(reply.map(|answer| DriveAnswer::Applied(Box::new(answer))))
}

async fn apply_outcome_reply(
    services: &Services,
    outcome: &ApplyOutcome,
) -> Result<Reply<AppliedPlan>, RequestError> {
    let plan = outcome.plan();
    let id = plan.identity.plan_id;
    match outcome {
        ApplyOutcome::Applied { apply, .. } => {
            let work = plan_work(services, plan).await?;
            let reply = Reply::new(applied_plan(services, plan, &work, Some(apply)));
            // It is applied, whether or not this can be found out.
            let warnings = result_secret_warnings(services, id)
                .await
                .unwrap_or_default();
            let reply = warnings.into_iter().fold(reply, Reply::warn);
            Ok(match work.paths {
                0 => reply.info("Applied: no changes"),
                _ if apply.is_without_changes() => {
                    reply.info("Applied: the target already had these changes, nothing was written")
                }
                _ => reply
                    .info("Changes applied")
                    .hint(NextStep::send(&PlanUnapply { plan: id.into() })),
            })
        }
        ApplyOutcome::Unchanged { .. } if plan.position.state() == PlanState::Cancelled => {
            Err(cancelled_failure(services, plan).await?)
        }
        ApplyOutcome::Unchanged { apply, .. } => {
            let work = plan_work(services, plan).await?;
            let text = format!("nothing to apply: the plan is at {}", plan.position);
            Ok(Reply::new(applied_plan(services, plan, &work, apply.as_ref())).info(text))
        }
        ApplyOutcome::Blocked { conflicts, .. } => Err(blocked_apply_failure(plan, conflicts)),
        ApplyOutcome::Stopped { conflicts, .. } => Err(stopped_apply_failure(plan, conflicts)),
        ApplyOutcome::ValidationsFailed { reason, .. } => {
            let what = "nothing was applied: required validations failed";
            let failure = RequestError::new(ExitClass::NotDone, what)
                .kind(FailureKind::Validations)
                .because(reason.clone())
                .hint(diff_step(id))
                .hint(revert_step(id))
                .with_plan(plan);
            Err(if plan.brief.automation_profile.allow_forced_checks {
                failure.hint(force_checks_step(plan))
            } else {
                failure
            })
        }
        ApplyOutcome::Cancelled(_) => Err(cancelled_failure(services, plan).await?),
    }
}

async fn cancelled_failure(services: &Services, plan: &Plan) -> Result<RequestError, StoreError> {
    let start_over = start_over_step(services, plan).await?;
    let what = format!("nothing was applied: the plan is at {}", plan.position);
    let failure = RequestError::new(ExitClass::Conflict, what)
        .kind(FailureKind::Cancelled)
        .with_plan(plan)
        .hint(status_step(plan.identity.plan_id))
        .hint(start_over);
    Ok(failure)
}

fn applied_plan(
    services: &Services,
    plan: &Plan,
    work: &PlanWork,
    apply: Option<&ApplyRecord>,
) -> AppliedPlan {
    let parts = apply.iter().flat_map(|it| &it.resources);
    let parts = parts.map(|part| {
        let sandbox = work.sandboxes.iter().find(|it| it.id == part.sandbox_id);
        AppliedResource {
            resource: sandbox.map(|it| it.resource_name.clone()),
            state: part.state,
            result: part.result.clone(),
        }
    });
    AppliedPlan {
        plan: plan.into(),
        artifacts: work.paths,
        applied_at: plan.timestamps.finished_at,
        destination: apply.map(|it| it.destination.clone()),
        resources: parts.collect(),
        validation: work.validation.clone(),
        sandbox_cleanup: sandbox_cleanup(work),
        lifecycle: AppliedLifecycle {
            phase: plan.position.phase(),
            state: plan.position.state(),
            total_duration: format_duration(elapsed(plan, services.deps().clock.now())),
            total_cost: total_cost(&work.cost),
            decisions_made: work.decisions,
            child_plans: work.child_plans.total,
        },
        cost: work.cost,
    }
}

/// Returns the cost in US dollars if a model was used and all prices are known.
fn total_cost(cost: &PlanCost) -> Option<f64> {
    let is_known = cost.usd.is_some() && cost.estimated_usd.is_some();
    (is_known && cost.tokens_used > 0).then_some(cost.cost_so_far)
}

fn sandbox_cleanup(work: &PlanWork) -> SandboxCleanup {
    let is_repository = |it: &&SandboxRecord| it.resource_type == ResourceType::GitCheckout;
    let leftover = |sandboxes: Vec<&SandboxRecord>| match sandboxes.as_slice() {
        [] => LeftoverState::None,
        some if some.iter().all(|it| it.folder != FolderState::Kept) => LeftoverState::Removed,
        _ => LeftoverState::Kept,
    };
    let repositories = work.sandboxes.iter().filter(is_repository).collect();
    SandboxCleanup {
        worktree: leftover(work.sandboxes.iter().collect()),
        branch: leftover(repositories),
        checkpoint: match work.checkpoints {
            0 => LeftoverState::None,
            _ => LeftoverState::Kept,
        },
    }
}

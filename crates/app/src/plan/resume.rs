//! `plan.resume` and `plan.preview_resume`

use cleveragents_api::plan::execute::ExecutedPlan;
use cleveragents_api::plan::resume::{
    NextMove, PlanPreviewResume, PlanResume, ResumeOutlook, ResumePreviewAnswer,
};
use cleveragents_api::{FailureKind, Reply};
use cleveragents_domain::{Budget, Phase, Plan, PlanState, PointOfNoReturn, WaitReason};
use cleveragents_engine::applying::{ApplyQueueOutcome, PlanApplyRequest};
use cleveragents_engine::execution::{self, QueueOutcome, ResumePreview};

use crate::app::{App, Caller, Handler};
use crate::drive::apply_request_of;
use crate::failure::RequestError;
use crate::next_steps::{apply_step, execute_step, prompt_step, resume_step};
use crate::plan::execute::queued_reply;
use crate::plan::find::find_plan;
use crate::services::Services;

impl Handler<PlanResume> for App {
    async fn handle(
        &self,
        request: PlanResume,
        caller: &Caller,
    ) -> Result<Reply<ExecutedPlan>, RequestError> {
        let plan = find_plan(&self.services, &request.plan).await?;
        let budget = Budget {
            usd: request.max_usd,
            tokens: request.max_tokens,
            wall: request.max_wall,
        };
        if is_approved_apply_failed(&plan) {
            if budget != Budget::default() {
                return Err(needless_budget_failure(&plan));
            }
            return repeat_apply(&self.services, &plan, caller).await;
        }
        let executor = self.services.executor(caller)?;
        if budget != Budget::default() {
            let id = plan.identity.plan_id;
            let lifecycle = self.services.lifecycle();
            lifecycle.change_budget(id, budget, &caller.who).await?;
        }
        let queued = executor.enqueue_resume(&plan, &caller.who).await?;
        queued_reply(&self.services, queued).await
    }
}

/// Returns whether an apply failed that the user had approved, before it changed anything.
pub(super) fn is_approved_apply_failed(plan: &Plan) -> bool {
    let at = plan.position;
    (at.phase(), at.state()) == (Phase::Apply, PlanState::Errored)
        && at.point_of_no_return() == PointOfNoReturn::Ahead
        && plan.approvals.apply.is_some()
}

/// Returns the failure of a budget for a plan whose work is done.
fn needless_budget_failure(plan: &Plan) -> RequestError {
    RequestError::usage("the budget was not changed, and nothing was run")
        .kind(FailureKind::Argument)
        .because("only the apply is left, and it has no budget")
        .hint(resume_step(plan.identity.plan_id))
        .with_plan(plan)
}

/// Queues the apply again, as the user approved it: with its destination and author.
pub(super) async fn repeat_apply(
    services: &Services,
    plan: &Plan,
    caller: &Caller,
) -> Result<Reply<ExecutedPlan>, RequestError> {
    let apply = PlanApplyRequest {
        // Approved for this plan. If it changed meanwhile, the user has to see it (law 1).
        version: Some(plan.version),
        ..apply_request_of(plan, caller)
    };
    let queued = match services.apply_service(caller)?.enqueue(&apply).await? {
        ApplyQueueOutcome::Queued(plan) => QueueOutcome::Queued(*plan),
        ApplyQueueOutcome::Unchanged(plan, _) => QueueOutcome::Unchanged(*plan),
    };
    queued_reply(services, queued).await
}

impl Handler<PlanPreviewResume> for App {
    async fn handle(
        &self,
        request: PlanPreviewResume,
        caller: &Caller,
    ) -> Result<Reply<ResumePreviewAnswer>, RequestError> {
        let id = find_plan(&self.services, &request.plan)
            .await?
            .identity
            .plan_id;
        let preview = self.services.executor(caller)?.preview_resume(id).await?;
        let reply = Reply::new(answer(&preview));
        let reply = match &preview.holder {
            Some(holder) if holder.owner != self.services.deps().owner => {
                reply.info(format!("already running: {}", holder.owner))
            }
            _ => reply,
        };
        Ok(with_hint(reply, &preview))
    }
}

fn answer(preview: &ResumePreview) -> ResumePreviewAnswer {
    ResumePreviewAnswer {
        plan: (&preview.plan).into(),
        dry_run: true,
        outlook: ResumeOutlook {
            next: match preview.next {
                execution::NextMove::Strategize => NextMove::Strategize,
                execution::NextMove::Approve => NextMove::Approve,
                execution::NextMove::Execute => NextMove::Execute,
                execution::NextMove::Apply => NextMove::Apply,
                execution::NextMove::ApplyApproved => NextMove::ApplyApproved,
                execution::NextMove::Nothing => NextMove::Nothing,
            },
            step: preview.step,
            steps: preview.steps,
            confirmed_calls: preview.confirmed_calls,
            interrupted_calls: preview.interrupted_calls.clone(),
            stored_answers: preview.stored_answers,
            interrupted_models: preview.interrupted_models,
        },
        owner: preview.holder.as_ref().map(|it| it.owner),
    }
}

fn with_hint(
    reply: Reply<ResumePreviewAnswer>,
    preview: &ResumePreview,
) -> Reply<ResumePreviewAnswer> {
    let id = preview.plan.identity.plan_id;
    let reply = match preview.plan.position.waiting() {
        Some(WaitReason::Answer { .. }) => reply.hint(prompt_step(id)),
        Some(WaitReason::Approval { .. }) => return reply.hint(execute_step(id)),
        _ => reply,
    };
    match preview.next {
        execution::NextMove::Nothing => reply,
        execution::NextMove::Apply => reply.hint(apply_step(&preview.plan)),
        execution::NextMove::Approve => reply.hint(execute_step(id)),
        execution::NextMove::Strategize
        | execution::NextMove::Execute
        | execution::NextMove::ApplyApproved => reply.hint(resume_step(id)),
    }
}

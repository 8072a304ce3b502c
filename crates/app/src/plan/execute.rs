//! `plan.execute`, and the reply of a plan that ran.

use cleveragents_api::plan::drive::DriveAnswer;
use cleveragents_api::plan::execute::{ExecutedPlan, StrategySummary, WorkProgress, WorkStatus};
use cleveragents_api::plan::{PlanCheckpoints, PlanErrors, PlanExecute, PlanStatus};
use cleveragents_api::{ExitClass, FailureKind, NextStep, Reply};
use cleveragents_domain::{
    Confidence, GateDecision, Phase, Plan, PlanState, PointOfNoReturn, ThresholdName, WaitReason,
};
use cleveragents_engine::execution::{AutoApply, ExecuteOutcome, QueueOutcome};
use cleveragents_ports::StoreError;

use super::work::PlanWork;
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::next_steps::{
    apply_step, diff_step, execute_step, mark_applied_step, prompt_step, raise_budget_step,
    resume_step, revert_step, tree_step,
};
use crate::plan::error_recovery_steps::{needs_change, recovery_steps};
use crate::plan::find::find_plan;
use crate::plan::next_commands::{continue_failed_step, plan_next_steps};
use crate::plan::resume::{is_approved_apply_failed, repeat_apply};
use crate::plan::start_over::start_over_step;
use crate::plan::status::newest_error;
use crate::plan::work::plan_work;
use crate::services::Services;

const WAITING_FOR_APPROVAL: &str = "Waiting for your approval";

impl Handler<PlanExecute> for App {
    async fn handle(
        &self,
        request: PlanExecute,
        caller: &Caller,
    ) -> Result<Reply<ExecutedPlan>, RequestError> {
        let plan = find_plan(&self.services, &request.plan).await?;
        let id = plan.identity.plan_id;
        if let Some(WaitReason::Approval { .. }) = plan.position.waiting()
            && request.detach
        {
            let what = "a tool call waits for your approval, which cannot be given with --detach";
            return Err(RequestError::new(ExitClass::Conflict, what)
                .kind(FailureKind::Approval)
                .hint(execute_step(id)));
        }
        // Otherwise only the user can approve the apply again.
        if is_approved_apply_failed(&plan) && applies_by_itself(&plan) {
            return repeat_apply(&self.services, &plan, caller).await;
        }
        let executor = self.services.executor(caller)?;
        let queued = executor.enqueue(&plan, &caller.who).await?;
        queued_reply(&self.services, queued).await
    }
}

/// Whether the profile applies the plan without the user, however unsure its actors are.
fn applies_by_itself(plan: &Plan) -> bool {
    let profile = &plan.brief.automation_profile;
    let gate = profile.gate(ThresholdName::StartApply, Confidence::ZERO);
    gate == GateDecision::Proceed && !profile.guards.require_approval_for_apply
}

/// Returns the reply to a request to run a plan, before it runs.
pub(crate) async fn queued_reply(
    services: &Services,
    queued: QueueOutcome,
) -> Result<Reply<ExecutedPlan>, RequestError> {
    let id = queued.plan().identity.plan_id;
    let reply = plan_reply(services, queued.plan()).await?;
    Ok(match &queued {
        QueueOutcome::Queued(_) => reply.info("Queued").hint(resume_step(id)),
        QueueOutcome::Unapproved(_) => reply
            .info("Strategy ready: waiting for your approval")
            .hint(tree_step(id))
            .hint(execute_step(id))
            .with_exit(ExitClass::Decision),
        QueueOutcome::Unchanged(plan) => add_unchanged_messages(services, reply, plan).await?,
    })
}

/// Returns the reply for a plan that ran.
pub(crate) async fn executed_reply(
    services: &Services,
    outcome: &ExecuteOutcome,
) -> Result<Reply<DriveAnswer>, RequestError> {
    let reply = plan_reply(services, outcome.plan()).await?;
    let reply = match outcome {
        ExecuteOutcome::Failed { plan, reason } => {
            let error = newest_error(services, plan).await?;
            match error.filter(needs_change) {
                Some(error) => {
                    let reply = reply.error(reason.clone()).with_exit(ExitClass::Error);
                    let reply = match &error.rollback {
                        Some(_) => reply,
                        None => reply.hint(NextStep::send(&PlanErrors {
                            plan: plan.identity.plan_id.into(),
                        })),
                    };
                    let steps = recovery_steps(&error, plan.destination.as_ref()).into_iter();
                    steps.map(|it| it.step).fold(reply, Reply::hint)
                }
                None => add_messages(services, reply, outcome).await?,
            }
        }
        _ => add_messages(services, reply, outcome).await?,
    };
    Ok(reply.map(|answer| DriveAnswer::Executed(Box::new(answer))))
}

/// Returns the plan's state and recorded work, with the warnings of its sandboxes.
async fn plan_reply(services: &Services, plan: &Plan) -> Result<Reply<ExecutedPlan>, RequestError> {
    let work = plan_work(services, plan).await?;
    let warnings = sandbox_warnings(&work);
    let reply = Reply::new(executed_plan(services, plan, work));
    Ok(warnings.into_iter().fold(reply, Reply::warn))
}

/// Adds the warnings of the plan's sandboxes.
pub(crate) async fn with_sandbox_warnings<A>(
    services: &Services,
    reply: Reply<A>,
    plan: &Plan,
) -> Result<Reply<A>, RequestError> {
    let warnings = sandbox_warnings(&plan_work(services, plan).await?);
    Ok(warnings.into_iter().fold(reply, Reply::warn))
}

fn executed_plan(services: &Services, plan: &Plan, work: PlanWork) -> ExecutedPlan {
    let progress = progress(plan, &work);
    let sandboxes: Vec<_> = work.sandboxes.iter().map(Into::into).collect();
    let strategy = work.strategy;
    ExecutedPlan {
        plan: plan.into(),
        sandbox: sandboxes.first().cloned(),
        sandboxes,
        started: plan
            .timestamps
            .execute_started_at
            .or(plan.timestamps.strategize_started_at),
        worker: services.deps().owner,
        strategy_summary: StrategySummary {
            hash: strategy.as_ref().map(|it| it.hash.clone()),
            summary: strategy.as_ref().map(|it| it.strategy.summary.clone()),
            steps: strategy.as_ref().map(|it| it.strategy.steps.clone()),
            approved_by: strategy.and_then(|it| it.approved_by.map(|by| by.to_string())),
            decisions: work.decisions,
            invariants: work.invariants,
            planned_child_plans: work.child_plans.total,
        },
        progress,
        tool_calls: work.tool_calls,
        changes: work.changes,
        validation: work.validation,
        cost: work.cost,
    }
}

/// Returns the warnings from the creation of the plan's sandboxes.
fn sandbox_warnings(work: &PlanWork) -> Vec<String> {
    let sandboxes = work.sandboxes.iter();
    let warnings = sandboxes.flat_map(|sandbox| {
        let name = &sandbox.resource_name;
        let warnings = sandbox.warnings.iter();
        warnings.map(move |warning| format!("{name}: {warning}"))
    });
    warnings.collect()
}

/// Returns the progress of each part of the work.
fn progress(plan: &Plan, work: &PlanWork) -> Vec<WorkProgress> {
    let at = plan.position;
    let executed = at.has_passed(Phase::Execute)
        || (at.phase() == Phase::Execute && at.state() == PlanState::Complete);
    let parts = [
        ("Collect context", work.strategy.is_some(), true),
        ("Run tools", executed, work.tool_calls > 0),
        ("Build changeset", executed, work.changes > 0),
        ("Validate", executed, work.validation.is_some()),
    ];
    let part = |(label, done, begun): (&str, bool, bool)| WorkProgress {
        label: label.to_owned(),
        status: match (done, begun) {
            (true, _) => WorkStatus::Done,
            (false, true) => WorkStatus::Stopped,
            (false, false) => WorkStatus::Queued,
        },
    };
    parts.into_iter().map(part).collect()
}

/// Adds messages and the exit class.
async fn add_messages(
    services: &Services,
    reply: Reply<ExecutedPlan>,
    outcome: &ExecuteOutcome,
) -> Result<Reply<ExecutedPlan>, StoreError> {
    let id = outcome.plan().identity.plan_id;
    let errors = || NextStep::send(&PlanErrors { plan: id.into() });
    Ok(match outcome {
        ExecuteOutcome::Unchanged(plan) => add_unchanged_messages(services, reply, plan).await?,
        ExecuteOutcome::NeedsApproval { decision, .. } => reply
            .info("Strategy ready")
            .info(WAITING_FOR_APPROVAL)
            .detail(decision.explanation.clone())
            .hint(tree_step(id))
            .hint(execute_step(id))
            .with_exit(ExitClass::Decision),
        ExecuteOutcome::Waiting {
            waiting, reason, ..
        } => add_waiting_messages(reply.info(reason.clone()), *waiting, outcome.plan()),
        ExecuteOutcome::LimitReached { reason, .. } => reply
            .error(reason.clone())
            .hint(errors())
            .with_exit(ExitClass::Limit),
        ExecuteOutcome::Complete { auto_apply, .. } => {
            let reply = reply.info("Executed");
            let reply = match auto_apply {
                AutoApply::No(reason) => reply.info(WAITING_FOR_APPROVAL).detail(reason.clone()),
                AutoApply::Yes => reply,
            };
            reply.hint(diff_step(id)).hint(apply_step(outcome.plan()))
        }
        ExecuteOutcome::Constrained { reason, .. } => reply
            .error(format!("Required validations failed: {reason}"))
            .hint(diff_step(id))
            .hint(execute_step(id))
            .hint(revert_step(id))
            .with_exit(ExitClass::NotDone),
        ExecuteOutcome::Failed { reason, plan } => reply
            .error(reason.clone())
            .hint(errors())
            .hint(continue_failed_step(plan))
            .with_exit(ExitClass::Error),
        ExecuteOutcome::Cancelled(_) => reply
            .error("the plan was cancelled while it ran")
            .with_exit(ExitClass::Conflict),
    })
}

async fn add_unchanged_messages(
    services: &Services,
    reply: Reply<ExecutedPlan>,
    plan: &Plan,
) -> Result<Reply<ExecutedPlan>, StoreError> {
    let reply = add_unfinished_messages(reply, plan);
    if plan.position.state() == PlanState::Cancelled {
        return Ok(reply.hint(start_over_step(services, plan).await?));
    }
    Ok(reply)
}

fn add_unfinished_messages(reply: Reply<ExecutedPlan>, plan: &Plan) -> Reply<ExecutedPlan> {
    let id = plan.identity.plan_id;
    let status = NextStep::send(&PlanStatus { plan: id.into() });
    let at = plan.position;
    if !at.is_terminal() && at.point_of_no_return() == PointOfNoReturn::Passed {
        // The apply stopped after its decision, with its files partly written.
        return reply
            .error("the apply is unfinished: files of it are written and not committed")
            .hint(status)
            .hint(mark_applied_step(id))
            .with_exit(ExitClass::Conflict);
    }
    if at.state() == PlanState::Cancelled {
        return reply
            .error(format!("nothing was run: the plan is at {at}"))
            .hint(status)
            .with_exit(ExitClass::Conflict);
    }
    if at.phase() == Phase::Apply
        && matches!(at.state(), PlanState::Errored | PlanState::Constrained)
    {
        // Never 0 for work that is not done: only the user can decide to repeat it.
        let why = plan.error_message.as_deref().unwrap_or("it stopped");
        let reply = reply.error(format!("the plan is not applied: {why}"));
        let steps = plan_next_steps(plan).into_iter();
        return steps
            .fold(reply, Reply::hint)
            .with_exit(ExitClass::Decision);
    }
    let next = match at.state() {
        PlanState::Applied => status,
        _ => apply_step(plan),
    };
    reply
        .info(format!("Nothing to run: the plan is at {at}"))
        .hint(next)
}

/// Adds messages about what a waiting plan waits for.
fn add_waiting_messages(
    reply: Reply<ExecutedPlan>,
    waiting: WaitReason,
    plan: &Plan,
) -> Reply<ExecutedPlan> {
    let id = plan.identity.plan_id;
    match waiting {
        WaitReason::Approval { .. } | WaitReason::Slot => reply
            .hint(execute_step(id))
            .hint(NextStep::send(&PlanCheckpoints { plan: id.into() }))
            .with_exit(ExitClass::Decision),
        WaitReason::Answer { .. } => reply
            .hint(prompt_step(id))
            .hint(resume_step(id))
            .with_exit(ExitClass::Decision),
        WaitReason::Budget => reply
            .hint(NextStep::send(&PlanErrors { plan: id.into() }))
            .hint(raise_budget_step(plan))
            .with_exit(ExitClass::Limit),
        WaitReason::Until { until } => reply
            .info(format!("it can continue at {until}"))
            .hint(resume_step(id))
            .with_exit(ExitClass::Temporary),
    }
}

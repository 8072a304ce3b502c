//! The steps that continue a plan, from its position alone. Every position has one but that of a
//! cancelled plan, whose work only another plan can do: `start_over`.

use cleveragents_api::NextStep;
use cleveragents_api::plan::PlanUnapply;
use cleveragents_domain::{Phase, Plan, PlanState, PointOfNoReturn, WaitReason};

use crate::next_steps::{
    apply_step, cancel_step, diff_step, execute_step, mark_applied_step, prompt_step,
    raise_budget_step, rebase_step, resume_step, tree_step,
};

/// Returns the steps that continue a plan that no process runs, the most likely first.
pub(crate) fn plan_next_steps(plan: &Plan) -> Vec<NextStep> {
    let id = plan.identity.plan_id;
    let at = plan.position;
    if let Some(waiting) = at.waiting() {
        return waiting_steps(plan, waiting);
    }
    match (at.phase(), at.state()) {
        (_, PlanState::Cancelled) => Vec::new(),
        (_, PlanState::Applied) => vec![NextStep::send(&PlanUnapply { plan: id.into() })],
        (_, PlanState::Unapplied) => vec![apply_step(plan)],
        (Phase::Apply, _) => apply_steps(plan),
        (_, PlanState::Processing) => vec![resume_step(id)],
        (_, PlanState::Errored) => vec![continue_failed_step(plan), cancel_step(id)],
        (Phase::Execute, PlanState::Constrained) => {
            vec![diff_step(id), execute_step(id), cancel_step(id)]
        }
        (Phase::Execute, PlanState::Complete) => vec![diff_step(id), apply_step(plan)],
        (Phase::Strategize, PlanState::Complete) => vec![tree_step(id), execute_step(id)],
        (Phase::Strategize | Phase::Execute, _) => vec![execute_step(id)],
    }
}

/// Returns the step that continues a plan that failed: with its approvals, if it has any.
pub(crate) fn continue_failed_step(plan: &Plan) -> NextStep {
    let id = plan.identity.plan_id;
    if plan.approvals.strategy.is_some() || plan.approvals.apply.is_some() {
        resume_step(id)
    } else {
        execute_step(id)
    }
}

fn waiting_steps(plan: &Plan, waiting: WaitReason) -> Vec<NextStep> {
    let id = plan.identity.plan_id;
    match waiting {
        WaitReason::Answer { .. } => vec![prompt_step(id), resume_step(id)],
        WaitReason::Approval { .. } => vec![execute_step(id), cancel_step(id)],
        WaitReason::Budget => vec![raise_budget_step(plan), cancel_step(id)],
        WaitReason::Slot | WaitReason::Until { .. } => vec![resume_step(id)],
    }
}

/// Returns the steps that continue an apply.
fn apply_steps(plan: &Plan) -> Vec<NextStep> {
    let id = plan.identity.plan_id;
    let is_decided = plan.position.point_of_no_return() == PointOfNoReturn::Passed;
    match plan.position.state() {
        // A process ended in the middle of it, and recovery goes on.
        PlanState::Processing if is_decided => vec![resume_step(id), apply_step(plan)],
        PlanState::Queued if is_decided => vec![apply_step(plan)],
        _ if is_decided => vec![apply_step(plan), mark_applied_step(id), cancel_step(id)],
        PlanState::Constrained => vec![apply_step(plan), rebase_step(id), cancel_step(id)],
        PlanState::Errored if plan.approvals.apply.is_some() => {
            vec![resume_step(id), cancel_step(id)]
        }
        PlanState::Errored => vec![apply_step(plan), cancel_step(id)],
        _ => vec![apply_step(plan)],
    }
}

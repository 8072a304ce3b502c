//! Next steps that several answers and failures share.

use cleveragents_api::NextStep;
use cleveragents_api::action::{ActionList, ActionShow};
use cleveragents_api::actor::{ActorList, ActorShow};
use cleveragents_api::automation_profile::{AutomationProfileList, AutomationProfileShow};
use cleveragents_api::plan::{
    PlanApply, PlanCancel, PlanCheckpoints, PlanCorrect, PlanDiff, PlanExecute, PlanList,
    PlanPrompt, PlanRebase, PlanReference, PlanResume, PlanRevert, PlanStatus, PlanTree,
    PlanUnapply, PlanUse,
};
use cleveragents_api::project::{ProjectDelete, ProjectList, ProjectShow};
use cleveragents_api::resource::{ResourceList, ResourceShow};
use cleveragents_api::validation::{ValidationList, ValidationShow};
use cleveragents_domain::apply_record::Destination;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{CorrectionMode, NamespacedName, Plan};
use cleveragents_ports::Entity;

/// Returns the step of listing all records of a kind, if users can list them.
pub(crate) fn list_step(entity: Entity) -> Option<NextStep> {
    Some(match entity {
        Entity::Action => NextStep::send(&ActionList::default()),
        Entity::Actor => actors_step(),
        Entity::AutomationProfile => profiles_step(),
        Entity::Plan => NextStep::send(&PlanList::default()),
        Entity::Project => NextStep::send(&ProjectList::default()),
        Entity::Resource => NextStep::send(&ResourceList::default()),
        Entity::Validation => NextStep::send(&ValidationList::default()),
        _ => return None,
    })
}

/// Returns the step of displaying the record with this name, if users can display its kind.
pub(crate) fn show_record_step(entity: Entity, name: &str) -> Option<NextStep> {
    let arguments = [("name", name)];
    Some(match entity {
        Entity::Action => NextStep::fill_in::<ActionShow>(&arguments),
        Entity::Actor => NextStep::fill_in::<ActorShow>(&arguments),
        Entity::AutomationProfile => NextStep::fill_in::<AutomationProfileShow>(&arguments),
        Entity::Project => NextStep::fill_in::<ProjectShow>(&arguments),
        Entity::Resource => NextStep::fill_in::<ResourceShow>(&arguments),
        Entity::Validation => NextStep::fill_in::<ValidationShow>(&arguments),
        _ => return None,
    })
}

pub(crate) fn status_step(plan: impl Into<PlanReference>) -> NextStep {
    NextStep::send(&PlanStatus { plan: plan.into() })
}

pub(crate) fn execute_step(plan: impl Into<PlanReference>) -> NextStep {
    NextStep::send(&PlanExecute {
        plan: plan.into(),
        detach: false,
    })
}

pub(crate) fn resume_step(plan: impl Into<PlanReference>) -> NextStep {
    NextStep::send(&PlanResume::new(plan))
}

/// Returns the step of resuming a plan with a larger budget, of the kinds that are limited.
pub(crate) fn raise_budget_step(plan: &Plan) -> NextStep {
    let step = resume_step(plan.identity.plan_id);
    let budget = &plan.brief.budget;
    let limits = [
        ("max_usd", "USD", budget.usd.is_some()),
        ("max_tokens", "TOKENS", budget.tokens.is_some()),
        ("max_wall", "TIME", budget.wall.is_some()),
    ];
    let limits = limits.into_iter().filter(|(_, _, is_set)| *is_set);
    limits.fold(step, |step, (name, placeholder, _)| {
        step.with_argument(name, placeholder)
    })
}

/// Returns the step that applies a plan to its destination.
pub(crate) fn apply_step(plan: &Plan) -> NextStep {
    let destination = plan.destination.clone();
    NextStep::send(&PlanApply {
        plan: plan.identity.plan_id.into(),
        to: destination.filter(|it| *it != Destination::Current),
        mark_applied: false,
        force_checks: None,
    })
}

/// Returns the step that applies a plan although required checks failed.
pub(crate) fn force_checks_step(plan: &Plan) -> NextStep {
    apply_step(plan).with_argument("force_checks", "REASON")
}

/// Returns the step that applies a plan to the current branch, for errors that do not know the
/// plan's destination.
pub(crate) fn apply_to_current_step(plan: PlanId) -> NextStep {
    NextStep::send(&PlanApply {
        plan: plan.into(),
        to: None,
        mark_applied: false,
        force_checks: None,
    })
}

/// Returns the step that writes a plan's result into the files and commits nothing.
pub(crate) fn apply_to_files_step(plan: PlanId) -> NextStep {
    NextStep::send(&PlanApply {
        plan: plan.into(),
        to: Some(Destination::Worktree),
        mark_applied: false,
        force_checks: None,
    })
}

pub(crate) fn unapply_step(plan: impl Into<PlanReference>) -> NextStep {
    NextStep::send(&PlanUnapply { plan: plan.into() })
}

/// Returns the step that applies a plan to this destination, by default to the current branch.
pub(crate) fn apply_to_step(plan: PlanId, to: Option<&Destination>) -> NextStep {
    NextStep::send(&PlanApply {
        plan: plan.into(),
        to: to.filter(|it| **it != Destination::Current).cloned(),
        mark_applied: false,
        force_checks: None,
    })
}

/// Returns the step that marks a plan as applied, after the user has done it by hand.
pub(crate) fn mark_applied_step(plan: PlanId) -> NextStep {
    NextStep::send(&PlanApply {
        plan: plan.into(),
        to: None,
        mark_applied: true,
        force_checks: None,
    })
}

pub(crate) fn diff_step(plan: impl Into<PlanReference>) -> NextStep {
    NextStep::send(&PlanDiff {
        plan: plan.into(),
        patch: false,
        files: Vec::new(),
        resource: None,
    })
}

pub(crate) fn tree_step(plan: impl Into<PlanReference>) -> NextStep {
    NextStep::send(&PlanTree {
        plan: plan.into(),
        show_superseded: false,
    })
}

pub(crate) fn rebase_step(plan: impl Into<PlanReference>) -> NextStep {
    NextStep::send(&PlanRebase { plan: plan.into() })
}

pub(crate) fn cancel_step(plan: impl Into<PlanReference>) -> NextStep {
    NextStep::send(&PlanCancel::new(plan))
}

pub(crate) fn revert_step(plan: impl Into<PlanReference>) -> NextStep {
    NextStep::send(&PlanRevert::new(plan))
}

/// Returns the step of answering the question of a plan.
pub(crate) fn prompt_step(plan: impl Into<PlanReference>) -> NextStep {
    NextStep::send(&PlanPrompt {
        plan: plan.into(),
        guidance: "your answer".to_owned(),
    })
}

/// Returns the step of replacing a decision.
pub(crate) fn correct_step(decision: &str) -> NextStep {
    NextStep::fill_in::<PlanCorrect>(&[
        ("decision", decision),
        ("mode", CorrectionMode::Revert.as_str()),
        ("guidance", "TEXT"),
    ])
}

/// Returns the step of creating a plan from an action, for a project that the user names.
pub(crate) fn use_step(action: &str) -> NextStep {
    let step = NextStep::fill_in::<PlanUse>(&[("action", action)]);
    step.with_argument("projects", vec!["PROJECT"])
}

pub(crate) fn delete_project_step(name: &NamespacedName) -> NextStep {
    NextStep::send(&ProjectDelete {
        name: name.clone(),
        force: false,
    })
}

/// Returns the step of listing the checkpoints of a plan that the user names.
pub(crate) fn checkpoints_step() -> NextStep {
    NextStep::fill_in::<PlanCheckpoints>(&[("plan", "PLAN")])
}

pub(crate) fn actors_step() -> NextStep {
    NextStep::send(&ActorList::default())
}

pub(crate) fn profiles_step() -> NextStep {
    NextStep::send(&AutomationProfileList::default())
}

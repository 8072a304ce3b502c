//! Converts errors about projects and resources into failures with hints.

use cleveragents_api::failure_facts::BlockingPlan;
use cleveragents_api::project::{ProjectCreate, ProjectLinkResource, ProjectUnlinkResource};
use cleveragents_api::resource::ResourceShow;
use cleveragents_api::{ExitClass, FailureKind, NextStep};
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{NamespacedName, Plan};
use cleveragents_engine::projects::ProjectError;
use cleveragents_ports::{Entity, StoreError, UniqueKey};

use super::RequestError;
use crate::next_steps::{
    cancel_step, delete_project_step, execute_step, list_step, profiles_step, show_record_step,
    status_step,
};

/// Number of plans that a message lists; JSON output lists all.
const NAMED_MAXIMUM: usize = 10;

impl From<ProjectError> for RequestError {
    fn from(error: ProjectError) -> Self {
        let shown = error.to_string();
        let conflict = |kind| RequestError::new(ExitClass::Conflict, shown.clone()).kind(kind);
        match error {
            ProjectError::Store(error) => store_failure(error),
            ProjectError::Lifecycle(error) => error.into(),
            ProjectError::Invariant(_) => RequestError::usage(shown)
                .kind(FailureKind::Invariant)
                .because("an invariant is a rule as text that plans must keep")
                .hint(NextStep::fill_in::<ProjectCreate>(&[
                    ("name", "NAME"),
                    ("invariant", "No new dependencies"),
                ])),
            ProjectError::TooLong { what, .. } => {
                RequestError::usage(format!("{what} is too long"))
                    .kind(FailureKind::TooLong)
                    .because(shown)
                    .hint("give a shorter one")
            }
            ProjectError::UnknownProfile { .. } => RequestError::new(ExitClass::NotFound, shown)
                .kind(FailureKind::UnknownProfile)
                .because("no built-in or added profile has this name")
                .hint(profiles_step()),
            ProjectError::ActivePlans { project, plans } => {
                blocked_failure(&shown, &project, &plans)
            }
            ProjectError::Stopping { project, plans } => stopping_failure(&shown, &project, &plans),
            ProjectError::Applying { project, plans } => applying_failure(&shown, &project, &plans),
            ProjectError::PathTaken { resource, .. } => conflict(FailureKind::PathTaken)
                .because("a path can be registered once")
                .hint(NextStep::send(&ResourceShow {
                    name: resource.clone(),
                }))
                .hint(NextStep::fill_in::<ProjectLinkResource>(&[
                    ("project", "PROJECT"),
                    ("resource", &resource.to_string()),
                ]))
                .with_facts(|facts| facts.resource = Some(resource)),
            ProjectError::Linked { resource, projects } => {
                let resource = resource.to_string();
                let hint = |project: &String| {
                    let arguments = [("project", project.as_str()), ("resource", &resource)];
                    NextStep::fill_in::<ProjectUnlinkResource>(&arguments)
                };
                let hints = projects.iter().take(NAMED_MAXIMUM).map(hint);
                let mut failure = conflict(FailureKind::Linked)
                    .because("plans of these projects may still need it");
                failure.next_steps.extend(hints);
                let names = projects.iter().filter_map(|it| it.parse().ok());
                failure.with_facts(|facts| facts.projects = Some(names.collect()))
            }
        }
    }
}

fn store_failure(error: StoreError) -> RequestError {
    match &error {
        StoreError::NotFound {
            entity: entity @ (Entity::Project | Entity::Resource),
            ..
        } => {
            let entity = *entity;
            RequestError::from(error)
                .because(format!("no {entity} has that name, or it was deleted"))
                .hints(list_step(entity))
        }
        StoreError::Taken {
            key: UniqueKey::Name(noun),
            name,
            ..
        } => {
            let show = show_record_step(*noun, name);
            let reason = format!("no two {noun}s have the same name");
            RequestError::from(error).because(reason).hints(show)
        }
        _ => error.into(),
    }
}

/// Returns the failure for a project with unfinished plans, with both ways to resolve it.
fn blocked_failure(message: &str, project: &NamespacedName, plans: &[Plan]) -> RequestError {
    let delete = delete_project_step(project).with_flag("force");
    delete_failure(message, plans, cancel_step)
        .kind(FailureKind::DeleteBlocked)
        .hint(delete)
}

/// Returns the failure for plans that other processes run: they were asked to stop, and the user
/// can delete the project later.
fn stopping_failure(message: &str, project: &NamespacedName, plans: &[Plan]) -> RequestError {
    let delete = delete_project_step(project).with_flag("force");
    delete_failure(message, plans, status_step)
        .kind(FailureKind::Stopping)
        .because("nothing was deleted and no other plan was cancelled")
        .hint(delete.with_condition("when they have stopped"))
}

/// Returns the failure for plans that can no longer be cancelled and must be finished first.
fn applying_failure(message: &str, project: &NamespacedName, plans: &[Plan]) -> RequestError {
    delete_failure(message, plans, execute_step)
        .kind(FailureKind::Applying)
        .because("nothing was deleted and no plan was cancelled")
        .hint(delete_project_step(project).with_condition("then"))
}

/// Returns the failure for plans that block a deletion, with a step for each of them.
fn delete_failure(message: &str, plans: &[Plan], step: fn(PlanId) -> NextStep) -> RequestError {
    let mut failure = RequestError::new(ExitClass::Conflict, message);
    for plan in plans.iter().take(NAMED_MAXIMUM) {
        let id = plan.identity.plan_id.short();
        failure = failure.because(format!("plan {id} is at {}", plan.position));
    }
    if let Some(more) = plans.len().checked_sub(NAMED_MAXIMUM).filter(|&it| it > 0) {
        failure = failure.because(format!("and {more} more"));
    }
    let blocking = plans.iter().map(blocking_plan).collect();
    let named_plans = plans.iter().take(NAMED_MAXIMUM);
    failure
        .hints(named_plans.map(|plan| step(plan.identity.plan_id)))
        .with_facts(|facts| facts.delete_blocked = Some(blocking))
}

fn blocking_plan(plan: &Plan) -> BlockingPlan {
    BlockingPlan {
        plan_id: plan.identity.plan_id,
        phase: plan.position.phase(),
        state: plan.position.state(),
    }
}

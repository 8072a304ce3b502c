//! Converts errors about projects and resources into failures with hints.

use cleveragents_api::{ExitClass, NextStep};
use cleveragents_domain::{NamespacedName, Plan};
use cleveragents_engine::projects::ProjectError;
use cleveragents_ports::{Entity, StoreError, UniqueKey};
use serde_json::{Value, json};

use super::RequestError;

/// How many plans a message lists; JSON output lists all.
const NAMED_MAXIMUM: usize = 10;

impl From<ProjectError> for RequestError {
    fn from(error: ProjectError) -> Self {
        let shown = error.to_string();
        let conflict = |kind| RequestError::new(ExitClass::Conflict, shown.clone()).kind(kind);
        match error {
            ProjectError::Store(error) => store_failure(error),
            ProjectError::Lifecycle(error) => error.into(),
            ProjectError::Invariant(_) => RequestError::usage(shown)
                .kind("invariant")
                .because("an invariant is a rule as text that plans must keep")
                .hint("agents project create NAME --invariant 'No new dependencies'"),
            ProjectError::TooLong { what, .. } => {
                RequestError::usage(format!("{what} is too long"))
                    .kind("too_long")
                    .because(shown)
                    .hint("give a shorter one")
            }
            ProjectError::UnknownProfile { .. } => RequestError::new(ExitClass::NotFound, shown)
                .kind("unknown_profile")
                .because("no built-in or added profile has this name")
                .hint("agents automation-profile list"),
            ProjectError::ActivePlans { project, plans } => {
                blocked_failure(&shown, &project, &plans)
            }
            ProjectError::Stopping { project, plans } => stopping_failure(&shown, &project, &plans),
            ProjectError::Applying { project, plans } => applying_failure(&shown, &project, &plans),
            ProjectError::PathTaken { resource, .. } => conflict("path_taken")
                .because("a path can be registered once")
                .hint(format!("agents resource show {resource}"))
                .hint(format!("agents project link-resource PROJECT {resource}"))
                .with("resource", resource.to_string().into()),
            ProjectError::Linked { resource, projects } => {
                let hint = |project| format!("agents project unlink-resource {project} {resource}");
                let hints = projects.iter().take(NAMED_MAXIMUM).map(hint);
                let mut failure =
                    conflict("linked").because("plans of these projects may still need it");
                failure.next_steps.extend(hints.map(NextStep::from));
                failure.with("projects", projects.into())
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
                .hint(format!("agents {entity} list"))
        }
        StoreError::Taken {
            key: UniqueKey::Name(noun),
            name,
            ..
        } => {
            let show = format!("agents {noun} show {name}");
            let reason = format!("no two {noun}s have the same name");
            RequestError::from(error).because(reason).hint(show)
        }
        _ => error.into(),
    }
}

/// Returns the failure for a project with unfinished plans, with both ways to resolve it.
fn blocked_failure(message: &str, project: &NamespacedName, plans: &[Plan]) -> RequestError {
    let mut resolution: Vec<String> = plans
        .iter()
        .map(|plan| format!("agents plan cancel {}", plan.identity.plan_id.short()))
        .take(NAMED_MAXIMUM)
        .collect();
    resolution.push(format!("agents project delete {project} --force"));
    delete_failure(message, plans, resolution).kind("delete_blocked")
}

/// Returns the failure for plans that other processes run: they were asked to stop, and the user
/// can delete the project later.
fn stopping_failure(message: &str, project: &NamespacedName, plans: &[Plan]) -> RequestError {
    let mut resolution: Vec<String> = plans
        .iter()
        .map(|plan| format!("agents plan status {}", plan.identity.plan_id.short()))
        .take(NAMED_MAXIMUM)
        .collect();
    resolution.push(format!(
        "when they have stopped: agents project delete {project} --force"
    ));
    delete_failure(message, plans, resolution)
        .kind("stopping")
        .because("nothing was deleted and no other plan was cancelled")
}

/// Returns the failure for plans that can no longer be cancelled and must be finished first.
fn applying_failure(message: &str, project: &NamespacedName, plans: &[Plan]) -> RequestError {
    let mut resolution: Vec<String> = plans
        .iter()
        .map(|plan| format!("agents plan execute {}", plan.identity.plan_id.short()))
        .take(NAMED_MAXIMUM)
        .collect();
    resolution.push(format!("then: agents project delete {project}"));
    delete_failure(message, plans, resolution)
        .kind("applying")
        .because("nothing was deleted and no plan was cancelled")
}

fn delete_failure(message: &str, plans: &[Plan], resolution: Vec<String>) -> RequestError {
    let mut failure = RequestError::new(ExitClass::Conflict, message);
    for plan in plans.iter().take(NAMED_MAXIMUM) {
        let id = plan.identity.plan_id.short();
        failure = failure.because(format!("plan {id} is at {}", plan.position));
    }
    if let Some(more) = plans.len().checked_sub(NAMED_MAXIMUM).filter(|&it| it > 0) {
        failure = failure.because(format!("and {more} more"));
    }
    failure
        .next_steps
        .extend(resolution.iter().cloned().map(NextStep::from));
    let named: Vec<Value> = plans.iter().map(blocking_plan_data).collect();
    failure
        .with("delete_blocked", named.into())
        .with("resolution", resolution.into())
}

fn blocking_plan_data(plan: &Plan) -> Value {
    json!({
        "plan_id": plan.identity.plan_id,
        "phase": plan.position.phase(),
        "state": plan.position.state(),
    })
}

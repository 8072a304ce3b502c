//! Checks before a plan is worked on. Every check runs; the error lists every failure.

use std::fmt::Debug;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::model::ModelChoice;
use cleveragents_domain::{
    NamespacedName, Plan, PlanBrief, PreflightCheck, PreflightFailure, Resource,
};

use super::error::{LifecycleError, Result};
use cleveragents_ports::{StoreError, StoreHandle};

/// Answers questions about the world outside the store. `Err` holds the reason.
pub trait PreflightProbe: Send + Sync + Debug {
    /// Whether the actor is available.
    fn check_actor(&self, name: &NamespacedName) -> std::result::Result<(), String>;

    /// Whether the model of the actor is available. Most actors need none.
    fn check_model(&self, _actor: &NamespacedName) -> std::result::Result<(), String> {
        Ok(())
    }

    /// The configured default model, if `check_model` failed because of it.
    fn unusable_default_model(&self) -> Option<ModelChoice> {
        None
    }

    /// Whether the tool or skill exists, and for a skill everything that it names.
    fn check_tool(&self, name: &NamespacedName) -> std::result::Result<(), String>;

    /// Whether the resource is readable.
    fn check_readable(&self, resource: &Resource) -> std::result::Result<(), String>;

    /// Whether the resource can be sandboxed.
    fn check_sandbox(&self, resource: &Resource) -> std::result::Result<(), String>;

    /// Whether work on the resource supports checkpoints.
    fn check_checkpoints(&self, resource: &Resource) -> std::result::Result<(), String>;
}

/// A plan with the data that the checks need.
#[derive(Debug, Clone)]
pub struct Preflight {
    plan: Plan,
    resources: Vec<Resource>,
    missing_projects: Vec<NamespacedName>,
}

impl Preflight {
    /// Reads the plan and the data that its checks need.
    pub async fn load(store: &StoreHandle, plan: PlanId) -> Result<Self> {
        let plan = store.read(move |tx| tx.plan(plan)).await?;
        Self::for_plan(store, plan).await
    }

    /// Reads the data that the checks of this plan need.
    pub async fn for_plan(store: &StoreHandle, plan: Plan) -> Result<Self> {
        let projects = plan.brief.projects.clone();
        let (resources, missing_projects) = store
            .read(move |tx| {
                let mut resources = Vec::new();
                let mut missing_projects = Vec::new();
                for project in &projects {
                    match tx.project(project) {
                        Ok(_) => resources.extend(tx.resources_of(project)?),
                        // Collected, not returned: the user gets all failures in one answer.
                        Err(StoreError::NotFound { .. }) => missing_projects.push(project.clone()),
                        Err(error) => return Err(error),
                    }
                }
                Ok((resources, missing_projects))
            })
            .await?;
        Ok(Self {
            plan,
            resources,
            missing_projects,
        })
    }

    /// Runs every check.
    pub fn check(&self, probe: &dyn PreflightProbe) -> Result<()> {
        let brief = &self.plan.brief;
        let mut failures = PreflightFailures::default();
        for problem in brief.problems() {
            failures.add(PreflightCheck::Schema, problem.to_string());
        }
        check_actors(brief, probe, &mut failures);
        check_tools(brief, probe, &mut failures);
        check_profile(brief, &mut failures);
        check_budget(brief, &mut failures);
        self.check_resources(probe, &mut failures);
        if failures.0.is_empty() {
            Ok(())
        } else {
            Err(LifecycleError::Preflight {
                failures: failures.0,
                default_model: probe.unusable_default_model(),
            })
        }
    }

    fn check_resources(&self, probe: &dyn PreflightProbe, failures: &mut PreflightFailures) {
        for project in &self.missing_projects {
            failures.add(
                PreflightCheck::Projects,
                format!("project {project} was deleted"),
            );
        }
        if self.missing_projects.is_empty() && self.resources.is_empty() {
            let nothing = "no project of the plan has a resource";
            failures.add(PreflightCheck::Resources, nothing.to_owned());
        }
        let profile = &self.plan.brief.automation_profile;
        for resource in &self.resources {
            // Further checks of an unreadable resource would only repeat the failure.
            if let Err(reason) = probe.check_readable(resource) {
                failures.add(PreflightCheck::Resources, reason);
                continue;
            }
            if profile.require_sandbox {
                failures.add_if_err(PreflightCheck::Sandbox, probe.check_sandbox(resource));
            }
            if profile.require_checkpoints {
                failures.add_if_err(PreflightCheck::Rollback, probe.check_checkpoints(resource));
            }
        }
    }
}

/// The failures found so far.
#[derive(Debug, Default)]
struct PreflightFailures(Vec<PreflightFailure>);

impl PreflightFailures {
    fn add(&mut self, check: PreflightCheck, reason: String) {
        let failure = PreflightFailure { check, reason };
        // One actor may have several roles.
        if !self.0.contains(&failure) {
            self.0.push(failure);
        }
    }

    fn add_if_err(&mut self, check: PreflightCheck, answer: std::result::Result<(), String>) {
        if let Err(reason) = answer {
            self.add(check, reason);
        }
    }
}

fn check_actors(brief: &PlanBrief, probe: &dyn PreflightProbe, failures: &mut PreflightFailures) {
    for name in brief.actors.names() {
        failures.add_if_err(PreflightCheck::Actors, probe.check_actor(name));
        failures.add_if_err(PreflightCheck::Models, probe.check_model(name));
    }
}

/// The action's skills and the tools that the profile allows by name must exist.
fn check_tools(brief: &PlanBrief, probe: &dyn PreflightProbe, failures: &mut PreflightFailures) {
    let allowed = &brief.automation_profile.guards.tool_allowlist;
    for name in brief.skills.iter().chain(allowed) {
        failures.add_if_err(PreflightCheck::Tools, probe.check_tool(name));
    }
}

/// The profile must not contradict itself or forbid what the plan needs.
fn check_profile(brief: &PlanBrief, failures: &mut PreflightFailures) {
    let profile = &brief.automation_profile;
    let guards = &profile.guards;
    let denied = |name: &&NamespacedName| guards.tool_denylist.contains(name);
    for name in guards.tool_allowlist.iter().filter(denied) {
        let both = format!("{name} is both allowed and denied by {}", profile.name);
        failures.add(PreflightCheck::Profile, both);
    }
    for name in brief.skills.iter().filter(denied) {
        let needed = format!("the action needs {name}, which {} denies", profile.name);
        failures.add(PreflightCheck::Profile, needed);
    }
    if guards.max_tool_calls_per_step == Some(0) {
        let none = format!("{} allows no tool call in a step", profile.name);
        failures.add(PreflightCheck::Profile, none);
    }
}

/// A budget of zero cannot start, and a budget above the profile's limit cannot be honoured.
fn check_budget(brief: &PlanBrief, failures: &mut PreflightFailures) {
    let (budget, profile) = (&brief.budget, &brief.automation_profile);
    for (nothing, what) in [
        (budget.usd == Some(0.0), "US dollars"),
        (budget.tokens == Some(0), "tokens"),
        (budget.wall == Some(0), "time"),
    ] {
        if nothing {
            failures.add(
                PreflightCheck::Budget,
                format!("the action's budget has no {what}"),
            );
        }
    }
    match (profile.guards.max_total_cost, budget.usd) {
        // `NaN` compares as neither above nor below, so it would pass the next check.
        (Some(limit), _) if limit.is_nan() || limit <= 0.0 => {
            failures.add(
                PreflightCheck::Budget,
                format!("{} allows no cost at all", profile.name),
            );
        }
        (Some(limit), Some(usd)) if limit < usd => {
            let above = format!(
                "the action's budget of {usd:.2} USD is above the {limit:.2} USD that {} allows",
                profile.name
            );
            failures.add(PreflightCheck::Budget, above);
        }
        _ => {}
    }
}

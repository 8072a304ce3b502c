//! What must be true before a plan is worked on. Every check runs; each failure is named.

use std::fmt;
use std::fmt::Debug;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{NamespacedName, Plan, Resource};
use serde::Serialize;

use super::error::{LifecycleError, Result};
use crate::ports::{StoreError, StoreHandle};

/// What the checks ask of the world outside the store.
pub trait Surroundings: Send + Sync + Debug {
    /// Whether an actor of this name can be had; else why not.
    fn actor(&self, name: &NamespacedName) -> std::result::Result<(), String>;

    /// Whether a tool or skill of this name is there; else why not.
    fn tool(&self, name: &NamespacedName) -> std::result::Result<(), String>;

    /// Whether the resource can be read; else why not.
    fn readable(&self, resource: &Resource) -> std::result::Result<(), String>;

    /// Whether work on the resource can be kept in a sandbox and undone; else why not.
    fn sandboxed(&self, resource: &Resource) -> std::result::Result<(), String>;
}

/// A check that did not pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PreflightFailure {
    pub check: &'static str,
    pub reason: String,
}

impl fmt::Display for PreflightFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.check, self.reason)
    }
}

/// A plan with what the checks look at.
#[derive(Debug, Clone)]
pub struct Preflight {
    plan: Plan,
    resources: Vec<Resource>,
    missing_projects: Vec<NamespacedName>,
}

impl Preflight {
    pub async fn look(store: &StoreHandle, plan: PlanId) -> Result<Self> {
        store
            .read(move |unit| {
                let plan = unit.plan(plan)?;
                let mut resources = Vec::new();
                let mut missing_projects = Vec::new();
                for project in &plan.brief.projects {
                    match unit.project(project) {
                        Ok(_) => resources.extend(unit.resources_of(project)?),
                        Err(StoreError::NotFound { .. }) => missing_projects.push(project.clone()),
                        Err(error) => return Err(error.into()),
                    }
                }
                Ok(Self {
                    plan,
                    resources,
                    missing_projects,
                })
            })
            .await
    }

    /// Runs every check.
    pub fn check(&self, surroundings: &dyn Surroundings) -> Result<()> {
        let mut failures = Vec::new();
        self.check_actors(surroundings, &mut failures);
        self.check_profile(surroundings, &mut failures);
        self.check_resources(surroundings, &mut failures);
        if failures.is_empty() {
            Ok(())
        } else {
            Err(LifecycleError::Preflight { failures })
        }
    }

    fn check_actors(&self, surroundings: &dyn Surroundings, failures: &mut Vec<PreflightFailure>) {
        let actors = &self.plan.brief.actors;
        let optional = [
            &actors.estimation_actor,
            &actors.review_actor,
            &actors.apply_actor,
            &actors.invariant_actor,
        ];
        let required = [&actors.strategy_actor, &actors.execution_actor];
        for name in required.into_iter().chain(optional.into_iter().flatten()) {
            if let Err(reason) = surroundings.actor(name) {
                failures.push(PreflightFailure {
                    check: "actors",
                    reason,
                });
            }
        }
    }

    /// What the profile's own guards name must exist, and its limits must make sense.
    fn check_profile(&self, surroundings: &dyn Surroundings, failures: &mut Vec<PreflightFailure>) {
        let profile = &self.plan.brief.automation_profile;
        for name in &profile.guards.tool_allowlist {
            if let Err(reason) = surroundings.tool(name) {
                failures.push(PreflightFailure {
                    check: "tools",
                    reason,
                });
            }
        }
        let denied = |name: &&NamespacedName| profile.guards.tool_denylist.contains(name);
        for name in profile.guards.tool_allowlist.iter().filter(denied) {
            failures.push(PreflightFailure {
                check: "profile",
                reason: format!("{name} is both allowed and denied by {}", profile.name),
            });
        }
        if profile
            .guards
            .max_total_cost
            .is_some_and(|cost| cost <= 0.0)
        {
            failures.push(PreflightFailure {
                check: "budget",
                reason: format!("{} allows no cost at all", profile.name),
            });
        }
    }

    fn check_resources(
        &self,
        surroundings: &dyn Surroundings,
        failures: &mut Vec<PreflightFailure>,
    ) {
        let mut fail = |check, reason| failures.push(PreflightFailure { check, reason });
        for project in &self.missing_projects {
            fail("projects", format!("project {project} was deleted"));
        }
        if self.missing_projects.is_empty() && self.resources.is_empty() {
            fail(
                "resources",
                "no project of the plan has a resource".to_owned(),
            );
        }
        for resource in &self.resources {
            if let Err(reason) = surroundings.readable(resource) {
                fail("resources", reason);
                continue;
            }
            if self.plan.brief.automation_profile.require_sandbox
                && let Err(reason) = surroundings.sandboxed(resource)
            {
                fail("sandbox", reason);
            }
        }
    }
}

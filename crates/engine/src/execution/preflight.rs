//! Collects the facts that preflight checks need, before they run.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleveragents_domain::actor::{Actor, ActorKind};
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{NamespacedName, Phase, Plan, PlanState, Resource};
use tokio::task::spawn_blocking;

use super::error::Result;
use super::executor::Executor;
use super::workspace::require_local_sandboxes;
use crate::lifecycle::{LifecycleError, PreflightFailure, PreflightProbe};
use cleveragents_ports::StoreError;

type ProbeAnswer = std::result::Result<(), String>;

/// Answers to all questions preflight may ask about one plan.
#[derive(Debug)]
pub(super) struct PreflightFindings {
    actors: BTreeMap<NamespacedName, ProbeAnswer>,
    models: BTreeMap<NamespacedName, ProbeAnswer>,
    tools: BTreeMap<NamespacedName, ProbeAnswer>,
    resources: BTreeMap<NamespacedName, ProbeAnswer>,
}

impl Executor {
    /// Probes all actors, tools and resources that the plan names.
    pub(super) async fn probe_preflight(&self, plan: &Plan) -> Result<PreflightFindings> {
        let brief = &plan.brief;
        let actors = &brief.actors;
        let optional = [
            &actors.estimation_actor,
            &actors.review_actor,
            &actors.apply_actor,
            &actors.invariant_actor,
        ];
        let required = [&actors.strategy_actor, &actors.execution_actor];
        let mut findings = PreflightFindings {
            actors: BTreeMap::new(),
            models: BTreeMap::new(),
            tools: BTreeMap::new(),
            resources: BTreeMap::new(),
        };
        for name in required.into_iter().chain(optional.into_iter().flatten()) {
            let found = self.actor(name).await;
            let answer = match found {
                Ok(actor) => {
                    if plan.position.phase() != Phase::Apply {
                        findings
                            .models
                            .insert(name.clone(), self.check_model(&actor));
                    }
                    self.check_steps(&actor)
                }
                Err(error) => Err(format!(
                    "{error}: add it with `agents actor add --config FILE`"
                )),
            };
            findings.actors.insert(name.clone(), answer);
        }
        let allowed = &brief.automation_profile.guards.tool_allowlist;
        for name in brief.skills.iter().chain(allowed) {
            findings.tools.insert(name.clone(), self.check_tool(name));
        }
        for resource in self.plan_resources(plan).await? {
            let sandboxes = Arc::clone(&self.sandboxes);
            let (path, kind) = (resource.path.clone(), resource.resource_type);
            let answer = match plan.position.phase() {
                // Apply checks its targets itself and lists the missing ones.
                Phase::Apply => Ok(()),
                Phase::Strategize | Phase::Execute => {
                    let usable =
                        spawn_blocking(move || sandboxes.check_usable(&path, kind)).await?;
                    usable.map_err(|error| format!("{}: {error}", resource.name))
                }
            };
            findings.resources.insert(resource.name, answer);
        }
        Ok(findings)
    }

    /// Fails if the plan's files are on another machine. Called before anything is recorded.
    pub(crate) async fn require_local(&self, plan: PlanId, command: &'static str) -> Result<()> {
        let node = self.node.clone();
        self.store
            .read(move |tx| require_local_sandboxes(tx, plan, &node, command))
            .await
    }

    /// Fails if a plan in the middle of a phase needs a model that is not available here. Called
    /// before anything is recorded. A plan that is about to start a phase gets the full preflight
    /// instead.
    pub(super) async fn require_model(&self, plan: PlanId) -> Result<()> {
        let plan = self.lifecycle.plan(plan).await?;
        let actors = &plan.brief.actors;
        let name = match (plan.position.state(), plan.position.phase()) {
            (PlanState::Processing, Phase::Strategize) => &actors.strategy_actor,
            (PlanState::Processing, Phase::Execute) => &actors.execution_actor,
            _ => return Ok(()),
        };
        let Ok(actor) = self.actor(name).await else {
            return Ok(());
        };
        self.check_model(&actor).map_err(|reason| {
            let check = "models";
            let failures = vec![PreflightFailure { check, reason }];
            LifecycleError::Preflight { failures }.into()
        })
    }

    fn check_tool(&self, name: &NamespacedName) -> ProbeAnswer {
        match self.toolbox.tool(name) {
            Some(_) => Ok(()),
            None => Err(format!("there is no tool {name}: see `agents tool list`")),
        }
    }

    /// Checks that the model of an actor is available.
    fn check_model(&self, actor: &Actor) -> ProbeAnswer {
        let ActorKind::Llm(llm) = &actor.kind else {
            return Ok(());
        };
        match self.model_of(llm) {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("{} cannot use its model: {error}", actor.name)),
        }
    }

    /// Checks that every tool of the actor's steps exists.
    fn check_steps(&self, actor: &Actor) -> ProbeAnswer {
        if let ActorKind::Llm(llm) = &actor.kind {
            for tool in llm.tools.iter().flatten() {
                self.check_tool(tool)
                    .map_err(|reason| format!("{} lists {tool}: {reason}", actor.name))?;
            }
        }
        for step in actor.steps() {
            self.check_tool(&step.tool)
                .map_err(|reason| format!("{} needs {}: {reason}", actor.name, step.tool))?;
        }
        Ok(())
    }

    async fn plan_resources(&self, plan: &Plan) -> Result<Vec<Resource>> {
        let projects = plan.brief.projects.clone();
        self.store
            .read(move |tx| {
                let mut resources = Vec::new();
                for project in &projects {
                    match tx.resources_of(project) {
                        Ok(found) => resources.extend(found),
                        Err(StoreError::NotFound { .. }) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                Ok(resources)
            })
            .await
    }
}

impl PreflightProbe for PreflightFindings {
    fn check_actor(&self, name: &NamespacedName) -> ProbeAnswer {
        find_answer(&self.actors, name, "actor")
    }

    fn check_model(&self, actor: &NamespacedName) -> ProbeAnswer {
        // A missing actor is already reported by its own check.
        self.models.get(actor).cloned().unwrap_or(Ok(()))
    }

    fn check_tool(&self, name: &NamespacedName) -> ProbeAnswer {
        find_answer(&self.tools, name, "tool")
    }

    fn check_readable(&self, resource: &Resource) -> ProbeAnswer {
        find_answer(&self.resources, &resource.name, "resource")
    }

    /// Every readable resource can be sandboxed: as a worktree of a repository, or as a copy.
    fn check_sandbox(&self, resource: &Resource) -> ProbeAnswer {
        find_answer(&self.resources, &resource.name, "resource")
    }

    /// Every sandbox supports checkpoints.
    fn check_checkpoints(&self, resource: &Resource) -> ProbeAnswer {
        find_answer(&self.resources, &resource.name, "resource")
    }
}

fn find_answer(
    known: &BTreeMap<NamespacedName, ProbeAnswer>,
    name: &NamespacedName,
    what: &str,
) -> ProbeAnswer {
    let missing = || Err(format!("the {what} {name} was not checked"));
    known.get(name).cloned().unwrap_or_else(missing)
}

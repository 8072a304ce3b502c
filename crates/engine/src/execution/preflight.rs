//! The preflight checks of a phase: collects the facts that they need, then runs them.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleveragents_domain::actor::{Actor, ActorKind};
use cleveragents_domain::model::ModelChoice;
use cleveragents_domain::{
    NamespacedName, Phase, Plan, PlanState, PreflightCheck, PreflightFailure, Resource,
};
use tokio::task::spawn_blocking;

use super::error::Result;
use super::services::{EngineServices, PlanActors, plan_actor_names};
use crate::actors::{OpenModelError, open_model};
use crate::lifecycle::{LifecycleError, Preflight, PreflightProbe};
use crate::runs::RunLease;
use cleveragents_ports::StoreError;

type ProbeAnswer = std::result::Result<(), String>;

/// Answers to all questions preflight may ask about one plan.
#[derive(Debug)]
pub(super) struct PreflightFindings {
    actors: BTreeMap<NamespacedName, ProbeAnswer>,
    models: BTreeMap<NamespacedName, ProbeAnswer>,
    tools: BTreeMap<NamespacedName, ProbeAnswer>,
    resources: BTreeMap<NamespacedName, ProbeAnswer>,
    unusable_default: Option<ModelChoice>,
}

/// Starts the plan's phase if every preflight check passes. `actors` must be the plan's.
pub(super) async fn start_phase(
    services: &EngineServices,
    run: &RunLease,
    plan: &Plan,
    actors: &PlanActors,
) -> Result<Plan> {
    let findings = probe_preflight(services, plan, actors).await?;
    let preflight = Preflight::for_plan(&services.store, plan.clone()).await?;
    preflight.check(&findings)?;
    Ok(services.lifecycle.as_owner(run).start_checked().await?)
}

/// Probes all actors, tools and resources that the plan names.
async fn probe_preflight(
    services: &EngineServices,
    plan: &Plan,
    actors: &PlanActors,
) -> Result<PreflightFindings> {
    let brief = &plan.brief;
    let mut findings = PreflightFindings {
        actors: BTreeMap::new(),
        models: BTreeMap::new(),
        tools: BTreeMap::new(),
        resources: BTreeMap::new(),
        unusable_default: None,
    };
    for name in plan_actor_names(plan) {
        let answer = match actors.get(&name) {
            // No actor works in Apply, so none was resolved.
            _ if plan.position.phase() == Phase::Apply => Ok(()),
            Ok(actor) => {
                let answer = check_model(services, actor).map_err(|error| {
                    if let Some(choice) = error.default_model() {
                        findings.unusable_default = Some(choice);
                    }
                    model_reason(actor, &error)
                });
                findings.models.insert(name.clone(), answer);
                check_steps(services, actor)
            }
            Err(error) => Err(format!(
                "{error}: add it with `agents actor add --config FILE`"
            )),
        };
        findings.actors.insert(name, answer);
    }
    let allowed = &brief.automation_profile.guards.tool_allowlist;
    for name in brief.skills.iter().chain(allowed) {
        findings
            .tools
            .insert(name.clone(), check_tool(services, name));
    }
    for resource in plan_resources(services, plan).await? {
        let sandboxes = Arc::clone(&services.sandboxes);
        let (path, kind) = (resource.path.clone(), resource.resource_type);
        let answer = match plan.position.phase() {
            // Apply checks its targets itself and lists the missing ones.
            Phase::Apply => Ok(()),
            Phase::Strategize | Phase::Execute => {
                let usable = spawn_blocking(move || sandboxes.check_usable(&path, kind)).await?;
                usable.map_err(|error| format!("{}: {error}", resource.name))
            }
        };
        findings.resources.insert(resource.name, answer);
    }
    Ok(findings)
}

/// Fails if a plan in the middle of a phase needs a model that is not available here. Called before
/// anything is recorded. A plan that is about to start a phase gets the full preflight instead.
pub(super) async fn require_model(services: &EngineServices, plan: &Plan) -> Result<()> {
    let names = &plan.brief.actors;
    let name = match (plan.position.state(), plan.position.phase()) {
        (PlanState::Processing, Phase::Strategize) => &names.strategy_actor,
        (PlanState::Processing, Phase::Execute) => &names.execution_actor,
        _ => return Ok(()),
    };
    let actors = PlanActors::load(services, plan).await?;
    let Ok(actor) = actors.get(name) else {
        return Ok(());
    };
    check_model(services, actor).map_err(|error| {
        let check = PreflightCheck::Models;
        let reason = model_reason(actor, &error);
        let failures = vec![PreflightFailure { check, reason }];
        let default_model = error.default_model();
        let error = LifecycleError::Preflight {
            failures,
            default_model,
        };
        error.into()
    })
}

fn check_tool(services: &EngineServices, name: &NamespacedName) -> ProbeAnswer {
    match services.toolbox.tool(name) {
        Some(_) => Ok(()),
        None => Err(format!("there is no tool {name}: see `agents tool list`")),
    }
}

/// Checks that the model of an actor is available.
fn check_model(
    services: &EngineServices,
    actor: &Actor,
) -> std::result::Result<(), OpenModelError> {
    let ActorKind::Llm(llm) = &actor.kind else {
        return Ok(());
    };
    open_model(&*services.models, llm).map(drop)
}

fn model_reason(actor: &Actor, error: &OpenModelError) -> String {
    format!("{} cannot use its model: {error}", actor.name)
}

/// Checks that every tool of the actor's steps exists.
fn check_steps(services: &EngineServices, actor: &Actor) -> ProbeAnswer {
    if let ActorKind::Llm(llm) = &actor.kind {
        for tool in llm.tools.iter().flatten() {
            check_tool(services, tool)
                .map_err(|reason| format!("{} lists {tool}: {reason}", actor.name))?;
        }
    }
    for step in actor.steps() {
        check_tool(services, &step.tool)
            .map_err(|reason| format!("{} needs {}: {reason}", actor.name, step.tool))?;
    }
    Ok(())
}

async fn plan_resources(services: &EngineServices, plan: &Plan) -> Result<Vec<Resource>> {
    let projects = plan.brief.projects.clone();
    services
        .store
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

impl PreflightProbe for PreflightFindings {
    fn check_actor(&self, name: &NamespacedName) -> ProbeAnswer {
        find_answer(&self.actors, name, "actor")
    }

    fn check_model(&self, actor: &NamespacedName) -> ProbeAnswer {
        // A missing actor is already reported by its own check.
        self.models.get(actor).cloned().unwrap_or(Ok(()))
    }

    fn unusable_default_model(&self) -> Option<ModelChoice> {
        self.unusable_default.clone()
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

//! `plan.use`

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use cleveragents_api::action::ActionShow;
use cleveragents_api::plan::PlanUse;
use cleveragents_api::plan::use_action::{
    CreatedPlan, CreatedPlanActors, CreatedPlanAutomation, CreatedPlanContext,
};
use cleveragents_api::project::ProjectList;
use cleveragents_api::uncommitted::UncommittedFiles;
use cleveragents_api::{NextStep, Reply};
use cleveragents_definitions::built_in_do_action;
use cleveragents_domain::automation::ProfileSource;
use cleveragents_domain::{BaseSource, NamespacedName, Plan, ProfileName, Resource};
use cleveragents_engine::lifecycle::{ActionChoice, LifecycleError, UseActionRequest};
use cleveragents_ports::{Entity, StoreError};

use crate::action::unknown_action_failure;
use crate::app::{App, Caller, Handler};
use crate::failure::RequestError;
use crate::next_steps::{execute_step, status_step, tree_step};
use crate::project_actions::{FoundAction, enclosing_projects, find_action, shadowed_warning};
use crate::services::Services;
use crate::trust::{GivenConsent, require_trust, tightened_profile_warning, trust_includes};
use crate::uncommitted::{find_uncommitted, uncommitted_warning};

impl Handler<PlanUse> for App {
    async fn handle(
        &self,
        request: PlanUse,
        caller: &Caller,
    ) -> Result<Reply<CreatedPlan>, RequestError> {
        let name = request.action.clone();
        let resources = resources_of(&self.services, &request.projects).await;
        let resources = resources.map_err(|error| use_failure(error.into(), &name))?;
        let chosen = choose_action(&self.services, &request, &resources, caller).await?;
        let consent = consent(&request);
        trust_includes(&self.services, &resources, &consent, caller).await?;
        let wanted = chosen.profile.clone();
        let request = use_request(&self.services, request, chosen.action, caller)?;
        let plan = self.services.masking_lifecycle()?.use_action(request).await;
        let plan = plan.map_err(|error| use_failure(error, &name))?;
        let uncommitted = match plan.brief.base {
            BaseSource::Head => find_uncommitted(&self.services, &resources),
            BaseSource::Worktree => Vec::new(),
        };
        let mut warnings = chosen.warning.into_iter().collect::<Vec<_>>();
        warnings.extend(tightened_profile_warning(&plan, wanted.as_ref()));
        warnings.extend(uncommitted.iter().map(uncommitted_warning));
        let reply = created_reply(&self.services, &plan, resources.len(), uncommitted);
        Ok(warnings.into_iter().fold(reply, Reply::warn))
    }
}

/// The action of a request.
struct ChosenAction {
    action: ActionChoice,
    /// The profile that a repository's action asks for.
    profile: Option<ProfileName>,
    warning: Option<String>,
}

/// Returns the resources of the projects. A missing project is not an error here; creating the
/// plan checks again and reports it.
async fn resources_of(
    services: &Services,
    projects: &[NamespacedName],
) -> Result<Vec<Resource>, StoreError> {
    let projects = projects.to_vec();
    services
        .store()
        .read(move |tx| {
            let mut resources = Vec::new();
            for project in &projects {
                resources.extend(tx.resources_of(project)?);
            }
            Ok(resources)
        })
        .await
}

/// Finds the action. One from a repository's own files needs the user's consent.
async fn choose_action(
    services: &Services,
    request: &PlanUse,
    resources: &[Resource],
    caller: &Caller,
) -> Result<ChosenAction, RequestError> {
    let name = &request.action;
    let any_task = built_in_do_action();
    // The action of `agents run TASK`, which is not registered.
    if *name == any_task.name {
        return Ok(ChosenAction {
            action: ActionChoice::Given(Box::new(any_task)),
            profile: None,
            warning: None,
        });
    }
    let folders = action_folders(services, request, resources);
    match find_action(services, name, &folders).await? {
        Ok(FoundAction::Registered { shadowed, .. }) => Ok(ChosenAction {
            action: ActionChoice::Registered(name.clone()),
            profile: None,
            warning: shadowed.map(|file| shadowed_warning(name, &file)),
        }),
        Ok(FoundAction::File(action)) => {
            let action = action.into_action();
            let consent = consent(request);
            require_trust(services, &action, &consent, caller).await?;
            Ok(ChosenAction {
                profile: action.draft.automation_profile.clone(),
                action: ActionChoice::Repository(Box::new(action)),
                warning: None,
            })
        }
        Err(unknown) => Err(unknown_action_failure(services, &unknown).await),
    }
}

/// Returns the folders to search for unregistered actions: the projects, then the caller's
/// working directory.
fn action_folders(services: &Services, request: &PlanUse, resources: &[Resource]) -> Vec<PathBuf> {
    let path =
        |resource: &Resource| PathBuf::from(OsString::from_vec(resource.path.as_bytes().to_vec()));
    let mut folders: Vec<PathBuf> = resources.iter().map(path).collect();
    for folder in enclosing_projects(services, request.folder.as_deref()) {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders
}

fn use_request(
    services: &Services,
    request: PlanUse,
    action: ActionChoice,
    caller: &Caller,
) -> Result<UseActionRequest, RequestError> {
    let invariants = request.invariants.iter();
    let invariants = invariants.map(|text| services.mask_secrets(text));
    Ok(UseActionRequest {
        action,
        invariants: invariants.collect::<Result<_, _>>()?,
        projects: request.projects,
        arguments: request.arguments,
        automation_profile: request.automation_profile,
        default_profile: request.default_profile,
        repository_profile: request.repository_profile,
        strategy_actor: request.strategy_actor,
        execution_actor: request.execution_actor,
        base: request.base,
        idempotency_key: request.idempotency_key,
        max_usd: None,
        destination: None,
        actor: caller.who.clone(),
    })
}

fn consent(request: &PlanUse) -> GivenConsent {
    GivenConsent {
        all: request.trust,
        hash: request.trusted_hash.clone(),
    }
}

/// Converts the error and adds next steps.
fn use_failure(error: LifecycleError, action: &NamespacedName) -> RequestError {
    let is_project = matches!(
        error,
        LifecycleError::Store(StoreError::NotFound {
            entity: Entity::Project,
            ..
        })
    );
    let is_argument = matches!(error, LifecycleError::Argument(_));
    let failure = RequestError::from(error);
    if is_project {
        failure.hint(NextStep::send(&ProjectList::default()))
    } else if is_argument {
        failure.hint(NextStep::send(&ActionShow {
            name: action.clone(),
            folder: None,
        }))
    } else {
        failure
    }
}

fn created_reply(
    services: &Services,
    plan: &Plan,
    resources: usize,
    uncommitted: Vec<UncommittedFiles>,
) -> Reply<CreatedPlan> {
    let id = plan.identity.plan_id;
    let brief = &plan.brief;
    let next_steps = [execute_step(id), status_step(id), tree_step(id)];
    let text = |step| services.adapters().next_step_text(step);
    let answer = CreatedPlan {
        plan: plan.into(),
        description: brief.description.clone(),
        automation_profile: brief.automation_profile.name.clone(),
        inputs: brief.arguments.clone(),
        actors: CreatedPlanActors {
            strategy: brief.actors.strategy_actor.clone(),
            execution: brief.actors.execution_actor.clone(),
            estimation: brief.actors.estimation_actor.clone(),
        },
        automation: CreatedPlanAutomation {
            profile: brief.automation_profile.name.clone(),
            source: source_name(brief.automation_source).to_owned(),
            read_only: brief.read_only,
        },
        context: CreatedPlanContext {
            resources,
            indexed_files: None,
            view: None,
            hot_token_budget: None,
        },
        invariants: brief.invariants.clone(),
        base: brief.base,
        next_steps: next_steps.iter().map(text).collect(),
        uncommitted,
    };
    let reply = Reply::new(answer).info("Plan created");
    let reply = next_steps.into_iter().fold(reply, Reply::hint);
    if resources == 0 {
        reply.warn("no project of this plan has a resource, so it cannot start yet")
    } else {
        reply
    }
}

fn source_name(source: ProfileSource) -> &'static str {
    match source {
        ProfileSource::Plan => "CLI flag",
        ProfileSource::Action => "action",
        ProfileSource::Project => "project",
        ProfileSource::Global => "setting",
    }
}

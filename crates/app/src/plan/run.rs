//! `plan.run`

use std::path::PathBuf;

use cleveragents_api::plan::run::{PlanStart, StartedPlan};
use cleveragents_api::{ExitClass, FailureKind, NextStep, Reply, Request};
use cleveragents_definitions::built_in_do_action;
use cleveragents_domain::apply_record::Destination;
use cleveragents_domain::approval::{ApprovedApply, PendingApprovals};
use cleveragents_domain::{
    ActorKind, BaseSource, LlmActor, NamespacedName, Phase, Plan, PlanState, ResourceType,
};

use cleveragents_engine::actors::open_model;
use cleveragents_engine::execution::{Executor, QueueOutcome};
use cleveragents_engine::lifecycle::{ActionChoice, UseActionRequest};

use super::run_folder::RunFolder;
use crate::action::unknown_action_failure;
use crate::actor::find_actor_by_name;
use crate::app::{App, Caller, Handler};
use crate::execution::apply_request;
use crate::failure::{RequestError, display_path, no_model_failure};
use crate::plan::run_folder::{find_or_create_project, open_run_folder};
use crate::project_actions::{FoundAction, enclosing_projects, find_action, shadowed_warning};
use crate::services::Services;
use crate::trust::{GivenConsent, require_trust, tightened_profile_warning, trust_includes};
use crate::uncommitted::{find_uncommitted_in, uncommitted_warning};

/// The maximum length of a task's title, in characters.
const TITLE_MAXIMUM: usize = 100;

/// The action of the plan.
#[derive(Debug)]
enum RunTask {
    Action(ActionChoice),
    Text,
}

impl Handler<PlanStart> for App {
    async fn handle(
        &self,
        request: PlanStart,
        caller: &Caller,
    ) -> Result<Reply<StartedPlan>, RequestError> {
        let started = self.start_plan(&request, caller).await;
        started.map_err(|failure| repeat_options(failure, &request))
    }
}

impl App {
    async fn start_plan(
        &self,
        request: &PlanStart,
        caller: &Caller,
    ) -> Result<Reply<StartedPlan>, RequestError> {
        let folder = open_run_folder(&self.services, &request.path)?;
        let (task, shadowed) = resolve_task(&self.services, request, &folder).await?;
        let consent = GivenConsent {
            all: request.trust,
            hash: request.trusted_hash.clone(),
        };
        let mut wanted = None;
        if let RunTask::Action(ActionChoice::Repository(action)) = &task {
            require_trust(&self.services, action, &consent, caller).await?;
            wanted = action.draft.automation_profile.clone();
        }
        check_actors(&self.services, request, &task).await?;
        let mut warnings = check_uncommitted(&self.services, request, &folder)?;
        let project = find_or_create_project(&self.services, &folder, caller).await?;
        trust_includes(&self.services, &project.resources, &consent, caller).await?;
        // Fails without git or confinement, so it comes before the plan is created.
        let executor = self.services.executor(caller)?;
        let creation = use_request(request, task, project.name.clone(), caller);
        let plan = self
            .services
            .masking_lifecycle()?
            .use_action(creation)
            .await?;
        warnings.extend(shadowed);
        warnings.extend(tightened_profile_warning(&plan, wanted.as_ref()));
        let started = start(&self.services, &executor, &plan, request, caller).await;
        // The plan exists from here on, so every failure names it.
        let plan = started.map_err(|it| it.with_plan_id(plan.identity.plan_id))?;
        let reply = Reply::new(StartedPlan {
            plan: (&plan).into(),
            path: folder.path.clone(),
        });
        let reply = if project.is_new {
            reply.info(format!(
                "{} is now the project {}",
                display_path(&folder.path),
                project.name
            ))
        } else {
            reply
        };
        Ok(warnings.into_iter().fold(reply, Reply::warn))
    }
}

/// Repeats the options of a request in the steps that send it again: without them, the plan would
/// work on another folder or be applied elsewhere.
fn repeat_options(mut failure: RequestError, request: &PlanStart) -> RequestError {
    for step in &mut failure.next_steps {
        let NextStep::Request {
            name, arguments, ..
        } = step
        else {
            continue;
        };
        if name != PlanStart::NAME {
            continue;
        }
        if request.folder.as_ref() != Some(&request.path) {
            let path = display_path(&request.path).to_string();
            arguments.entry("path").or_insert_with(|| path.into());
        }
        if let Some(to) = &request.to
            && let Ok(to) = serde_json::to_value(to)
        {
            arguments.entry("to").or_insert(to);
        }
    }
    failure
}

/// Resolves the task to an existing action, or to free text. A text in the form of a full name
/// that matches no action is an error, not a task. Also returns a warning if a file of the
/// repository defines the action too.
async fn resolve_task(
    services: &Services,
    request: &PlanStart,
    folder: &RunFolder,
) -> Result<(RunTask, Option<String>), RequestError> {
    let Some(name) = action_name(request) else {
        return Ok((RunTask::Text, None));
    };
    let mut folders: Vec<PathBuf> = vec![folder.path.clone()];
    let enclosing = enclosing_projects(services, request.folder.as_deref());
    folders.extend(enclosing.into_iter().filter(|it| *it != folder.path));
    let mut warning = None;
    let task = match find_action(services, &name, &folders).await? {
        Ok(FoundAction::Registered { shadowed, .. }) => {
            warning = shadowed.map(|file| shadowed_warning(&name, &file));
            RunTask::Action(ActionChoice::Registered(name))
        }
        Ok(FoundAction::File(local)) => {
            let action = Box::new(local.into_action());
            RunTask::Action(ActionChoice::Repository(action))
        }
        Err(unknown) if request.task.contains('/') => {
            return Err(unknown_action_failure(services, &unknown).await);
        }
        Err(_) => RunTask::Text,
    };
    Ok((task, warning))
}

/// Checks that the actors exist and their models can be opened. Done first, so that a failure
/// leaves nothing behind.
async fn check_actors(
    services: &Services,
    request: &PlanStart,
    task: &RunTask,
) -> Result<(), RequestError> {
    let is_text = matches!(task, RunTask::Text);
    let models = services.models()?;
    for chosen in [&request.strategy_actor, &request.execution_actor] {
        let kind = match chosen {
            Some(name) => find_actor_by_name(services, name)
                .await?
                .actor()
                .kind
                .clone(),
            None if is_text => ActorKind::Llm(LlmActor::default()),
            None => continue,
        };
        if let ActorKind::Llm(llm) = &kind {
            open_model(&*models, llm).map_err(|error| no_model_failure(&error))?;
        }
    }
    Ok(())
}

/// Returns warnings about uncommitted files, which the plan will not see. Fails if the request
/// refuses them.
fn check_uncommitted(
    services: &Services,
    request: &PlanStart,
    folder: &RunFolder,
) -> Result<Vec<String>, RequestError> {
    let is_checkout = folder.location.resource_type == ResourceType::GitCheckout;
    if request.base == BaseSource::Worktree || !is_checkout {
        return Ok(Vec::new());
    }
    let uncommitted = find_uncommitted_in(services, [&folder.location.path]);
    let warnings: Vec<String> = uncommitted.iter().map(uncommitted_warning).collect();
    if warnings.is_empty() || !request.refuse_uncommitted {
        return Ok(warnings);
    }
    let failure = RequestError::new(ExitClass::Decision, "nothing was done")
        .kind(FailureKind::Uncommitted)
        .hint(NextStep::fill_in::<PlanStart>(&[
            ("task", "TASK"),
            ("base", BaseSource::Worktree.as_str()),
        ]))
        .hint("git commit, then the same command")
        .with_facts(|facts| facts.warnings = Some(warnings));
    Err(failure)
}

async fn start(
    services: &Services,
    executor: &Executor,
    plan: &Plan,
    request: &PlanStart,
    caller: &Caller,
) -> Result<Plan, RequestError> {
    let id = plan.identity.plan_id;
    let destination = request.to.clone().or(plan.destination.clone());
    let destination = destination.unwrap_or(Destination::Current);
    let approvals = PendingApprovals {
        // `run` approves the strategy before it exists. The user asked for one run up to the
        // result.
        strategy: Some(caller.who.clone()),
        calls: 0,
        apply: request.yes.then(|| ApprovedApply {
            by: caller.who.clone(),
            destination: destination.clone(),
            author: caller.author.clone(),
            forced: None,
        }),
    };
    let to = request.to.clone();
    let queued = executor.enqueue_run(plan, &caller.who, approvals, to);
    let queued = queued.await?;
    // A repeated request finds a plan that is executed and not applied.
    // `enqueue` of an executed plan records nothing, so the approval of this request would be lost.
    if let QueueOutcome::Unchanged(plan) = &queued
        && is_executed(plan)
        && request.yes
    {
        let apply = apply_request(id, destination, caller);
        services.apply_service(caller)?.enqueue(&apply).await?;
    }
    Ok(queued.plan().clone())
}

fn is_executed(plan: &Plan) -> bool {
    let at = plan.position;
    let executed = (at.phase(), at.state()) == (Phase::Execute, PlanState::Complete);
    !at.is_terminal() && (executed || at.phase() == Phase::Apply)
}

/// Returns the action that the task may name.
fn action_name(request: &PlanStart) -> Option<NamespacedName> {
    let text = request.task.trim();
    if request.may_be_action && !text.contains(char::is_whitespace) {
        text.parse().ok()
    } else {
        None
    }
}

fn use_request(
    request: &PlanStart,
    task: RunTask,
    project: NamespacedName,
    caller: &Caller,
) -> UseActionRequest {
    let (action, mut arguments) = match task {
        RunTask::Action(action) => (action, Vec::new()),
        RunTask::Text => free_text_action(&request.task),
    };
    arguments.extend(request.arguments.iter().cloned());
    UseActionRequest {
        action,
        projects: vec![project],
        arguments,
        automation_profile: request.automation_profile.clone(),
        default_profile: request.default_profile.clone(),
        repository_profile: request.repository_profile.clone(),
        invariants: Vec::new(),
        strategy_actor: request.strategy_actor.clone(),
        execution_actor: request.execution_actor.clone(),
        base: request.base,
        idempotency_key: request.idempotency_key.clone(),
        max_usd: request.max_usd,
        destination: request.to.clone(),
        actor: caller.who.clone(),
    }
}

/// Returns the built-in action for free text, with its arguments.
fn free_text_action(text: &str) -> (ActionChoice, Vec<String>) {
    let text = text.trim();
    let first = text.lines().next().unwrap_or_default();
    // Counted in characters: cutting at a byte could split one.
    let mut title: String = first.chars().take(TITLE_MAXIMUM).collect();
    if first.chars().count() > TITLE_MAXIMUM {
        title.push('…');
    }
    let arguments = vec![format!("title={title}"), format!("task={text}")];
    (
        ActionChoice::Given(Box::new(built_in_do_action())),
        arguments,
    )
}

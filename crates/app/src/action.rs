//! Handlers of actions, one file per verb.

mod archive;
mod create;
mod list;
mod show;
mod validate;

use std::path::Path;

use cleveragents_api::NextStep;
use cleveragents_api::action::{ActionDetails, ActionList, ActionShow, ActionSource};
use cleveragents_definitions::ActionDraft;
use cleveragents_domain::{Action, Argument, ArgumentType, NamespacedName};
use cleveragents_ports::{Entity, PlanFilter, StoreError};

pub use validate::validate_action;

use crate::failure::{RequestError, display_path};
use crate::nearest::nearest;
use crate::next_steps;
use crate::project_actions::{ProjectAction, UnknownAction};
use crate::services::Services;

/// Returns the failure for an action that does not exist, with the most similar names.
pub(crate) async fn unknown_action_failure(
    services: &Services,
    unknown: &UnknownAction,
) -> RequestError {
    let name = &unknown.name;
    let missing = StoreError::NotFound {
        entity: Entity::Action,
        id: name.to_string(),
    };
    let registered = services.action_registry().list().await;
    let registered = registered.map_or(Vec::new(), |(actions, _)| actions);
    let known = registered.iter().map(|action| &action.name);
    let known = known.chain(&unknown.in_files);
    let reason = if unknown.in_files.contains(name) {
        "it is defined in a file of the project and is not registered"
    } else {
        "no action is registered under this name"
    };
    let mut failure = RequestError::from(missing).because(reason);
    for near in nearest(name, known) {
        failure = failure.hint(show(near));
    }
    failure.hint(NextStep::send(&ActionList::default()))
}

/// Counts the plans of an unregistered action, for which the store keeps no counter.
async fn count_plans(services: &Services, name: &NamespacedName) -> Result<u64, RequestError> {
    let filter = PlanFilter {
        action: Some(name.clone()),
        limit: Some(1),
        ..PlanFilter::default()
    };
    Ok(services.lifecycle().list_plans(filter).await?.total)
}

/// Returns the registered action with the number of its plans.
async fn registered_details(
    services: &Services,
    action: &Action,
) -> Result<ActionDetails, RequestError> {
    let (_, uses) = services.action_registry().list().await?;
    let plans = uses.get(&action.id).copied().unwrap_or_default();
    let draft = ActionDraft::from(action);
    Ok(details(services, draft, plans, Some(action), None))
}

/// Returns the action of a file with the number of its plans.
async fn file_details(
    services: &Services,
    action: ProjectAction,
) -> Result<ActionDetails, RequestError> {
    let plans = count_plans(services, &action.draft.name).await?;
    let file = Some(action.file.as_path());
    Ok(details(services, action.draft, plans, None, file))
}

/// Returns the step of showing an action.
fn show(name: &NamespacedName) -> NextStep {
    NextStep::send(&ActionShow {
        name: name.clone(),
        folder: None,
    })
}

/// Returns the step of using an action, with the arguments that the user has to fill in.
fn use_step(name: &NamespacedName, arguments: &[Argument]) -> NextStep {
    let placeholder = |argument: &Argument| {
        let value = match argument.argument_type {
            ArgumentType::Choice => argument.choices.join("|"),
            other => other.as_str().to_ascii_uppercase(),
        };
        format!("{}={value}", argument.name)
    };
    let required = arguments.iter().filter(|it| is_required(it));
    let placeholders: Vec<String> = required.map(placeholder).collect();
    next_steps::use_step(&name.to_string()).with_argument("arguments", placeholders)
}

fn details(
    services: &Services,
    draft: ActionDraft,
    plans: u64,
    registered: Option<&Action>,
    file: Option<&Path>,
) -> ActionDetails {
    let use_step = use_step(&draft.name, &draft.arguments);
    let actors = draft.actors;
    ActionDetails {
        name: draft.name,
        id: registered.map(|action| action.id),
        state: draft.state,
        description: draft.description,
        long_description: draft.long_description,
        strategy_actor: actors.strategy_actor,
        execution_actor: actors.execution_actor,
        estimation_actor: actors.estimation_actor,
        review_actor: actors.review_actor,
        apply_actor: actors.apply_actor,
        invariant_actor: actors.invariant_actor,
        definition_of_done: draft.definition_of_done,
        arguments: draft.arguments,
        automation_profile: draft.automation_profile,
        invariants: draft.invariants,
        checks: draft.checks,
        budget: draft.budget,
        skills: draft.skills,
        reusable: draft.reusable,
        read_only: draft.read_only,
        plans,
        source: match registered {
            Some(_) => ActionSource::Registered,
            None => ActionSource::File,
        },
        file: file.map(display_path),
        version: registered.map(|action| action.version),
        created_at: registered.map(|action| action.created_at),
        updated_at: registered.map(|action| action.updated_at),
        use_command: services.adapters().next_step_text(&use_step),
    }
}

fn is_required(argument: &Argument) -> bool {
    argument.required && argument.default.is_none()
}

/// Quotes a text as one word for a shell.
pub fn shell_quote(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%,:=".contains(c);
    // Zsh looks up a program for a word that starts with `=`.
    if !text.is_empty() && !text.starts_with('=') && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

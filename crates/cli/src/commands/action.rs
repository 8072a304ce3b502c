//! `agents action`: reusable templates for plans.

mod archive;
mod create;
mod list;
mod show;
mod validate;
mod view;

use clap::Subcommand;
use cleveragents_domain::NamespacedName;
use cleveragents_engine::lifecycle::LifecycleError;
use cleveragents_ports::{Entity, StoreError};

use super::{CommandContext, CommandRequirements};
use crate::bootstrap::AppContext;
use crate::failure::CommandFailure;
use crate::local_actions;
use crate::nearest::nearest;
use crate::output::CommandAnswer;

/// Register, list and archive actions: reusable, typed templates of work
///
/// An action is a YAML file with the task, its actors, its arguments and its definition of done.
/// Register it with `create`, or put it into a project's .agents/actions folder, where it can be
/// used without being registered.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
Examples:
  agents action validate coverage.yaml
  agents action create --config coverage.yaml
  agents action list
  agents action show local/code-coverage")]
pub enum ActionCommand {
    Create(create::ActionCreateArgs),
    List(list::ActionListArgs),
    Show(show::ActionShowArgs),
    Archive(archive::ActionArchiveArgs),
    Validate(validate::ActionValidateArgs),
}

impl ActionCommand {
    pub fn requirements(&self) -> CommandRequirements {
        match self {
            Self::Validate(_) => CommandRequirements::Settings,
            _ => CommandRequirements::Store,
        }
    }

    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        match self {
            Self::Create(command) => command.run(context),
            Self::List(command) => command.run(context),
            Self::Show(command) => command.run(context),
            Self::Archive(command) => command.run(context),
            Self::Validate(command) => command.run(context),
        }
    }
}

/// Returns whether the error says that the action does not exist.
pub(super) fn is_missing<T>(answer: &Result<T, LifecycleError>) -> bool {
    matches!(
        answer,
        Err(LifecycleError::Store(StoreError::NotFound { .. }))
    )
}

/// Returns the names of the actions in files around the working directory.
pub(super) fn local_action_names(context: &CommandContext<'_>) -> Vec<NamespacedName> {
    let folders = local_actions::default_folders(context.environment);
    let local = local_actions::scan(&folders).actions;
    local.into_iter().map(|one| one.draft.name).collect()
}

/// Returns the failure for an action that does not exist, with the most similar names among the
/// registered actions and `local`, the actions in files.
pub(super) fn unknown_action_failure(
    name: &NamespacedName,
    local: &[NamespacedName],
    app: &AppContext<'_>,
) -> CommandFailure {
    let missing = StoreError::NotFound {
        entity: Entity::Action,
        id: name.to_string(),
    };
    let registered = app.block_on(app.lifecycle().actions());
    let registered = registered.map_or(Vec::new(), |(actions, _)| actions);
    let known = registered.iter().map(|action| &action.name).chain(local);
    let reason = if local.contains(name) {
        "it is defined in a file of the project and is not registered"
    } else {
        "no action is registered under this name"
    };
    let mut failure = CommandFailure::from(missing).because(reason);
    let alike = nearest(name, known);
    for near in &alike {
        failure = failure.hint(format!("agents action show {near}"));
    }
    failure.hint("agents action list")
}

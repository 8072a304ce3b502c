//! `agents action`: reusable templates of work.

mod archive;
mod create;
mod list;
mod show;
mod validate;
mod view;

use clap::Subcommand;
use cleveragents_domain::NamespacedName;
use cleveragents_engine::StoreError;
use cleveragents_engine::lifecycle::LifecycleError;

use super::{Context, Needs};
use crate::failure::Failure;
use crate::local_actions;
use crate::nearest::nearest;
use crate::output::Answer;
use crate::wiring::Wired;

/// Register, find and retire actions: reusable, typed templates of work
///
/// An action is a YAML file: what to do, by which actors, with which arguments, and when it is
/// done. It is registered with `create`, or stands in a project's .agents/actions folder, from
/// where it is used without being registered.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
Examples:
  agents action validate coverage.yaml
  agents action create --config coverage.yaml
  agents action list
  agents action show local/code-coverage")]
pub enum ActionCommand {
    Create(create::Create),
    List(list::List),
    Show(show::Show),
    Archive(archive::Archive),
    Validate(validate::Validate),
}

impl ActionCommand {
    pub fn needs(&self) -> Needs {
        match self {
            Self::Validate(_) => Needs::Settings,
            _ => Needs::Store,
        }
    }

    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        match self {
            Self::Create(command) => command.run(context),
            Self::List(command) => command.run(context),
            Self::Show(command) => command.run(context),
            Self::Archive(command) => command.run(context),
            Self::Validate(command) => command.run(context),
        }
    }
}

/// Whether the answer is that there is no such action.
pub(super) fn is_missing<T>(answer: &Result<T, LifecycleError>) -> bool {
    matches!(
        answer,
        Err(LifecycleError::Store(StoreError::NotFound { .. }))
    )
}

/// The names of the actions that stand in files around the working directory.
pub(super) fn local_names(context: &Context<'_>) -> Vec<NamespacedName> {
    let folders = local_actions::around_here(context.environment);
    let local = local_actions::survey(&folders).actions;
    local.into_iter().map(|one| one.draft.name).collect()
}

/// There is no action `name`: what is offered are the most alike of those registered and of
/// `local`, those that stand in files.
pub(super) fn unknown(
    name: &NamespacedName,
    local: &[NamespacedName],
    wired: &Wired<'_>,
) -> Failure {
    let missing = StoreError::NotFound {
        what: "action",
        id: name.to_string(),
    };
    let registered = wired.wait(wired.lifecycle().actions());
    let registered = registered.map_or(Vec::new(), |(actions, _)| actions);
    let known = registered.iter().map(|action| &action.name).chain(local);
    let reason = match local.contains(name) {
        true => "it stands in a file of the project and is not registered",
        false => "no action is registered under this name",
    };
    let mut failure = Failure::from(missing).because(reason);
    let alike = nearest(name, known);
    for near in &alike {
        failure = failure.hint(format!("agents action show {near}"));
    }
    failure.hint("agents action list")
}

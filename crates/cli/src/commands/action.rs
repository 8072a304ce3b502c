//! `agents action`: reusable templates for plans.

mod archive;
mod create;
mod list;
mod show;
mod validate;
mod view;

use clap::Subcommand;

use super::{CommandContext, CommandRequirements};
use crate::failure::CommandFailure;
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

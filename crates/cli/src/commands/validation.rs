//! `agents validation`: checks of the results of plans.

mod add;
mod attach;
mod detach;
mod list;
mod remove;
mod show;
mod view;

use clap::Subcommand;

use super::CommandContext;
use crate::failure::CommandFailure;
use crate::output::CommandAnswer;

/// Define validations and attach them to resources
///
/// A validation is a command or a tool that checks a plan's result. It runs at the end of Execute
/// on every resource it is attached to. A plan that fails a `required` validation cannot be
/// applied; an `informational` one only reports.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
Examples:
  agents validation add --config tests.yaml
  agents validation attach local/shop local/tests
  agents validation list
  agents validation show local/tests
  agents validation detach 7XK2M9QD
  agents validation remove local/tests")]
pub enum ValidationCommand {
    Add(add::ValidationAddArgs),
    List(list::ValidationListArgs),
    Show(show::ValidationShowArgs),
    Attach(attach::ValidationAttachArgs),
    Detach(detach::ValidationDetachArgs),
    Remove(remove::ValidationRemoveArgs),
}

impl ValidationCommand {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        match self {
            Self::Add(command) => command.run(context),
            Self::List(command) => command.run(context),
            Self::Show(command) => command.run(context),
            Self::Attach(command) => command.run(context),
            Self::Detach(command) => command.run(context),
            Self::Remove(command) => command.run(context),
        }
    }
}

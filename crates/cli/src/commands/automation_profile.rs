//! `agents automation-profile`: where a plan needs the user's approval.

mod add;
mod list;
mod show;
mod view;

use clap::Subcommand;

use super::CommandContext;
use crate::failure::CommandFailure;
use crate::output::CommandAnswer;

/// List, show and add automation profiles, which define what needs your approval
///
/// Eight are built in, from `manual`, which always asks, to `full-auto`, which never asks. The
/// setting core.automation-profile is the default.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
Examples:
  agents automation-profile list
  agents automation-profile show cautious
  agents automation-profile add --config night-shift.yaml")]
pub enum AutomationProfileCommand {
    List(list::AutomationProfileListArgs),
    Show(show::AutomationProfileShowArgs),
    Add(add::AutomationProfileAddArgs),
}

impl AutomationProfileCommand {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        match self {
            Self::List(command) => command.run(context),
            Self::Show(command) => command.run(context),
            Self::Add(command) => command.run(context),
        }
    }
}

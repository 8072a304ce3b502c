//! `agents sandbox`: the private worktrees of plans.

mod gc;
mod list;
mod show;
mod view;

use clap::Subcommand;

use super::CommandContext;
use crate::failure::CommandFailure;
use crate::output::CommandAnswer;

/// List sandboxes of plans, and remove those no longer needed
///
/// Each plan has one sandbox per resource. A sandbox is kept until its changes are applied or
/// discarded, so that any process can resume the plan.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
Examples:
  agents sandbox list
  agents sandbox show 7XK2M9QD
  agents sandbox gc --dry-run
  agents sandbox gc --older-than 7d")]
pub enum SandboxCommand {
    List(list::SandboxListArgs),
    Show(show::SandboxShowArgs),
    Gc(gc::SandboxGcArgs),
}

impl SandboxCommand {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        match self {
            Self::List(command) => command.run(context),
            Self::Show(command) => command.run(context),
            Self::Gc(command) => command.run(context),
        }
    }
}

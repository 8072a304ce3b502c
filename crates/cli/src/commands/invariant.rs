//! `agents invariant`: rules that plans must keep.

mod add;
mod list;
mod remove;
mod view;

use clap::Subcommand;

use super::CommandContext;
use crate::failure::CommandFailure;
use crate::output::CommandAnswer;

/// Add, list and remove invariants: rules that plans must keep
///
/// A rule applies to everything (global), to the plans of a project or of an action, or to one
/// plan. If several scopes have the same rule, the narrowest wins: plan, action, project, global. A
/// global rule that is non-overridable wins over all.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
Examples:
  agents invariant add 'Never push'
  agents invariant add --project local/shop 'Change no public interface'
  agents invariant list --effective --project local/shop
  agents invariant remove 7XK2M9QD")]
pub enum InvariantCommand {
    Add(add::InvariantAddArgs),
    List(list::InvariantListArgs),
    Remove(remove::InvariantRemoveArgs),
}

impl InvariantCommand {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        match self {
            Self::Add(command) => command.run(context),
            Self::List(command) => command.run(context),
            Self::Remove(command) => command.run(context),
        }
    }
}

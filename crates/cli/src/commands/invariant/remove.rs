//! `agents invariant remove`

use clap::Args;
use cleveragents_api::invariant::InvariantRemove;
use cleveragents_domain::id::IdFragment;

use super::view;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView};

/// Remove a rule
///
/// Plans that started a phase with the rule keep a record of it.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents invariant remove 7XK2M9QD
  agents invariant remove 01JZZZZZZZ0000000000ABCDEF")]
pub struct InvariantRemoveArgs {
    /// Its id, or at least four characters of either end of it
    #[arg(value_name = "ID")]
    id: IdFragment,
}

impl InvariantRemoveArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let reply = context.call(InvariantRemove {
            id: self.id.clone(),
        })?;
        CommandAnswer::from_reply(reply, |removed| {
            OutputView::new().table("Removed", &view::HEADERS, [view::row(removed)])
        })
    }
}

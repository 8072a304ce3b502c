//! `agents action archive`

use clap::Args;
use cleveragents_api::action::ActionArchive;
use cleveragents_domain::NamespacedName;

use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView};

/// Archive an action
///
/// An archived action cannot be used for new plans; existing plans are not affected. `create
/// --update` with its file makes it available again.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents action archive local/code-coverage")]
pub struct ActionArchiveArgs {
    /// The name of the action
    #[arg(value_name = "NAME")]
    name: NamespacedName,
}

impl ActionArchiveArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let reply = context.call(ActionArchive {
            name: self.name.clone(),
            folder: context.environment.working_directory.clone(),
        })?;
        CommandAnswer::from_reply(reply, |action| {
            let rows = [
                ("name", action.name.to_string()),
                ("state", action.state.to_string()),
            ];
            OutputView::new().panel("Action archived", rows)
        })
    }
}

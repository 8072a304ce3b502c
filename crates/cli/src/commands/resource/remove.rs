//! `agents resource remove`

use clap::Args;
use cleveragents_api::resource::ResourceRemove;

use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::names;
use crate::output::{CommandAnswer, OutputView};

/// Unregister a resource; its files are kept
///
/// Fails if it is linked to a project.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents resource remove local/library")]
pub struct ResourceRemoveArgs {
    /// The resource
    name: String,
}

impl ResourceRemoveArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let reply = context.call(ResourceRemove {
            name: names::parse_name("resource", &self.name)?,
        })?;
        CommandAnswer::from_reply(reply, |answer| {
            let rows = [
                ("name", answer.removed.name.to_string()),
                ("path", answer.removed.path.to_string()),
            ];
            OutputView::new().panel("Removed", rows)
        })
    }
}

//! `agents validation remove`

use clap::Args;
use cleveragents_api::validation::ValidationRemove;

use super::view;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::names;
use crate::output::CommandAnswer;

/// Remove a validation
///
/// Fails if it is attached. Detach it first.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents validation remove local/tests")]
pub struct ValidationRemoveArgs {
    /// The name of the validation
    #[arg(value_name = "NAME")]
    name: String,
}

impl ValidationRemoveArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let name = names::parse_name("validation", &self.name)?;
        let reply = context.call(ValidationRemove { name })?;
        CommandAnswer::from_reply(reply, |answer| {
            view::panel("Validation removed", &answer.validation_removed)
        })
    }
}

//! `agents validation show`

use clap::Args;
use cleveragents_api::validation::ValidationShow;

use super::view;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::names;
use crate::output::CommandAnswer;

/// Show a validation: what it runs, and where it is attached
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents validation show local/tests
  agents validation show tests --format json")]
pub struct ValidationShowArgs {
    /// The name of the validation
    #[arg(value_name = "NAME")]
    name: String,
}

impl ValidationShowArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let name = names::parse_name("validation", &self.name)?;
        let reply = context.call(ValidationShow { name })?;
        CommandAnswer::from_reply(reply, |answer| {
            let view = view::panel("Validation", &answer.validation);
            if answer.attachments.is_empty() {
                return view;
            }
            let rows = answer.attachments.iter().map(view::attachment_row);
            view.table("Attachments", &view::ATTACHMENT_HEADERS, rows)
        })
    }
}

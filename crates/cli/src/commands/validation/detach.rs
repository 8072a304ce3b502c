//! `agents validation detach`

use clap::Args;
use cleveragents_api::NextStep;
use cleveragents_api::validation::{AttachmentDetails, ValidationDetach, ValidationList};
use cleveragents_domain::id::IdFragment;

use super::view;
use crate::commands::CommandContext;
use crate::confirmation::{Confirmation, confirm, is_interactive};
use crate::failure::{CommandFailure, ExitCode};
use crate::output::CommandAnswer;

/// Detach a validation from a resource
///
/// Its earlier results stay recorded.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents validation detach 7XK2M9QD
  agents validation detach 01JZZZZZZZ0000000000ABCDEF --yes")]
pub struct ValidationDetachArgs {
    /// The attachment's id, or at least four characters of either end of it
    #[arg(value_name = "ATTACHMENT")]
    attachment: IdFragment,

    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

impl ValidationDetachArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        if !self.yes && is_interactive(context.environment) {
            self.confirm_detach(context)?;
        }
        let reply = context.call(ValidationDetach {
            attachment: self.attachment.clone(),
        })?;
        CommandAnswer::from_reply(reply, |answer| {
            view::attachment_panel("Validation Detached", &answer.validation_detached)
        })
    }

    /// Asks before detaching. An attachment that does not exist is reported by the request itself.
    fn confirm_detach(&self, context: &CommandContext<'_>) -> Result<(), CommandFailure> {
        let page = context.call(ValidationList::default())?.answer;
        let is_meant = |found: &&AttachmentDetails| {
            let id = found.attachment_id.to_string();
            self.attachment.matches(&id)
        };
        let Some(found) = page.attachments.iter().find(is_meant) else {
            return Ok(());
        };
        let (validation, resource) = (&found.validation, &found.resource);
        let id = found.attachment_id.short();
        let question = format!("Detach {validation} from {resource} ({id})?");
        match confirm(&question, context.environment) {
            Confirmation::Yes | Confirmation::NoTerminal => Ok(()),
            Confirmation::No => {
                let detach = NextStep::fill_in::<ValidationDetach>(&[("attachment", &id)]);
                let failure = CommandFailure::new(ExitCode::Decision, "nothing was detached");
                Err(failure
                    .because("not confirmed")
                    .hint(detach.with_flag("yes")))
            }
        }
    }
}

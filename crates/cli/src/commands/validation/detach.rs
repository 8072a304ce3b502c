//! `agents validation detach`

use clap::Args;
use cleveragents_domain::id::IdFragment;
use cleveragents_engine::validations::AttachmentView;
use serde_json::json;

use super::view;
use crate::commands::CommandContext;
use crate::confirmation::{Confirmation, confirm};
use crate::failure::{CommandFailure, ExitCode};
use crate::output::{CommandAnswer, MessageLevel};

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
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open()?;
        let service = app.validations();
        let (_, attachments) = app.block_on(service.validations())?;
        let is_meant = |view: &&AttachmentView| {
            let id = view.attachment.id.to_string();
            self.attachment.matches(&id)
        };
        if let Some(found) = attachments.iter().find(is_meant) {
            self.confirm_detach(found, context)?;
        }
        let detached = app.block_on(service.detach(self.attachment.clone(), app.actor()));
        let detached = detached.map_err(|error| {
            let failure = CommandFailure::from(error);
            match failure.exit {
                ExitCode::NotFound => failure
                    .because("it never existed or was detached")
                    .hint("agents validation list"),
                _ => failure,
            }
        })?;
        let data = json!({"validation_detached": view::attachment_data(&detached)});
        let view = view::attachment_panel("Validation Detached", &detached);
        Ok(CommandAnswer::new(data, view).with_message(MessageLevel::Info, "Validation detached"))
    }

    fn confirm_detach(
        &self,
        found: &AttachmentView,
        context: &CommandContext<'_>,
    ) -> Result<(), CommandFailure> {
        if self.yes {
            return Ok(());
        }
        let (validation, resource) = (&found.attachment.validation, &found.resource);
        let id = found.attachment.id.short();
        let question = format!("Detach {validation} from {resource} ({id})?");
        match confirm(&question, context.environment) {
            Confirmation::Yes | Confirmation::NoTerminal => Ok(()),
            Confirmation::No => Err(CommandFailure::new(
                ExitCode::Decision,
                "nothing was detached",
            )
            .because("not confirmed")
            .hint(format!("agents validation detach {id} --yes"))),
        }
    }
}

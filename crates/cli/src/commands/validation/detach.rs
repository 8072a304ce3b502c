//! `agents validation detach`

use clap::Args;
use cleveragents_domain::id::IdFragment;
use cleveragents_engine::validations::AttachmentView;
use serde_json::json;

use super::view;
use crate::ask::{Reply, confirm};
use crate::commands::Context;
use crate::failure::{ExitCode, Failure};
use crate::output::{Answer, Level};

/// Take a validation off a resource
///
/// What it said of plans before stays on record.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents validation detach 7XK2M9QD
  agents validation detach 01JZZZZZZZ0000000000ABCDEF --yes")]
pub struct Detach {
    /// The attachment's id, or at least four characters of either end of it
    #[arg(value_name = "ATTACHMENT")]
    attachment: IdFragment,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

impl Detach {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let wiring = context.wiring()?;
        let wired = wiring.open()?;
        let service = wired.validations();
        let (_, attachments) = wired.wait(service.validations())?;
        let is_meant = |view: &&AttachmentView| {
            let id = view.attachment.id.to_string();
            self.attachment.matches(&id)
        };
        if let Some(found) = attachments.iter().find(is_meant) {
            self.ask(found, context)?;
        }
        let detached = wired.wait(service.detach(self.attachment.clone(), wired.actor()));
        let detached = detached.map_err(|error| {
            let failure = Failure::from(error);
            match failure.exit {
                ExitCode::NotFound => failure
                    .because("it was never there, or somebody detached it")
                    .hint("agents validation list"),
                _ => failure,
            }
        })?;
        let data = json!({"validation_detached": view::attachment_data(&detached)});
        let view = view::attachment_panel("Validation Detached", &detached);
        Ok(Answer::new(data, view).say(Level::Info, "Validation detached"))
    }

    fn ask(&self, found: &AttachmentView, context: &Context<'_>) -> Result<(), Failure> {
        if self.yes {
            return Ok(());
        }
        let (validation, resource) = (&found.attachment.validation, &found.resource);
        let id = found.attachment.id.short();
        let question = format!("Detach {validation} from {resource} ({id})?");
        match confirm(&question, context.environment) {
            Reply::Yes | Reply::Nobody => Ok(()),
            Reply::No => Err(Failure::new(ExitCode::Decision, "nothing was detached")
                .because("the question was not answered with yes")
                .hint(format!("agents validation detach {id} --yes"))),
        }
    }
}

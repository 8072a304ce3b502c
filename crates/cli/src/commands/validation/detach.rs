//! `agents validation detach`

use clap::Args;
use cleveragents_api::validation::{AttachmentDetails, ValidationDetach, ValidationList};
use cleveragents_domain::NamespacedName;
use cleveragents_domain::id::IdFragment;

use super::view;
use crate::argument_types::PlanArgument;
use crate::commands::CommandContext;
use crate::confirmation::{Confirmation, confirm, is_interactive};
use crate::failure::{CommandFailure, ExitCode, excerpt};
use crate::names;
use crate::output::CommandAnswer;

/// Detach a validation from a resource
///
/// Takes the id of the attachment, or what `attach` took: the resource, the validation, its
/// arguments and the scope. Earlier results stay recorded.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents validation detach 7XK2M9QD
  agents validation detach local/shop local/tests
  agents validation detach --project local/shop local/shop local/tests package=cart --yes")]
pub struct ValidationDetachArgs {
    /// The attachment's id, or at least four characters of either end of it; or the resource
    #[arg(value_name = "ATTACHMENT|RESOURCE")]
    attachment: String,

    /// The validation, after a resource
    #[arg(value_name = "VALIDATION")]
    validation: Option<String>,

    /// The arguments of the attachment; may be left out if there is only one
    #[arg(value_name = "NAME=VALUE")]
    args: Vec<String>,

    /// The attachment is for plans of this project
    #[arg(
        short,
        long,
        value_name = "PROJECT",
        conflicts_with = "plan",
        requires = "validation"
    )]
    project: Option<String>,

    /// The attachment is for this plan
    #[arg(long, value_name = "PLAN", requires = "validation")]
    plan: Option<PlanArgument>,

    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

impl ValidationDetachArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let parse = |what, text: &Option<String>| {
            let text = text.as_deref();
            text.map(|text| names::parse_name(what, text)).transpose()
        };
        let validation = parse("validation", &self.validation)?;
        let project = parse("project", &self.project)?;
        if !self.yes && is_interactive(context.environment) {
            self.confirm_detach(context, validation.as_ref())?;
        }
        let reply = context.call_for_plans(&self.plan, |mut plans| ValidationDetach {
            attachment: self.attachment.clone(),
            validation,
            args: self.args.clone(),
            project,
            plan: plans.pop(),
        })?;
        CommandAnswer::from_reply(reply, |answer| {
            view::attachment_panel("Validation Detached", &answer.validation_detached)
        })
    }

    /// Asks before detaching. An attachment that does not exist is reported by the request itself.
    fn confirm_detach(
        &self,
        context: &CommandContext<'_>,
        validation: Option<&NamespacedName>,
    ) -> Result<(), CommandFailure> {
        let question = match validation {
            Some(validation) => format!("Detach {validation} from {}?", excerpt(&self.attachment)),
            None => match self.question_of_id(context)? {
                Some(question) => question,
                None => return Ok(()),
            },
        };
        match confirm(&question, context.environment) {
            Confirmation::Yes | Confirmation::NoTerminal => Ok(()),
            Confirmation::No => {
                let failure = CommandFailure::new(ExitCode::Decision, "nothing was detached");
                Err(failure
                    .because("not confirmed")
                    .hint("repeat the command with --yes"))
            }
        }
    }

    fn question_of_id(
        &self,
        context: &CommandContext<'_>,
    ) -> Result<Option<String>, CommandFailure> {
        let Ok(fragment) = self.attachment.parse::<IdFragment>() else {
            return Ok(None);
        };
        let page = context.call(ValidationList::default())?.answer;
        let is_meant =
            |found: &&AttachmentDetails| fragment.matches(&found.attachment_id.to_string());
        Ok(page.attachments.iter().find(is_meant).map(|found| {
            let (validation, resource) = (&found.validation, &found.resource);
            let id = found.attachment_id.short();
            format!("Detach {validation} from {resource} ({id})?")
        }))
    }
}

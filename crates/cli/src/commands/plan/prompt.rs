//! `agents plan prompt`

use clap::Args;
use cleveragents_domain::action::TEXT_MAXIMUM;
use cleveragents_engine::lifecycle::MessageRecipient;
use serde_json::{Value, json};

use super::view::{find, plan_data, position_cell};
use crate::argument_types::PlanArgument;
use crate::commands::CommandContext;
use crate::failure::{CommandFailure, excerpt};
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell};

/// Send guidance to a plan, or answer its question
///
/// The process that runs the plan receives it at its next step, or else when the plan runs next. It
/// is also recorded as a decision of the plan.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan prompt 4k2m9x0q 'keep the public interface as it is'
  agents plan prompt 4k2m9x0q yes")]
pub struct PlanPromptArgs {
    /// The plan: its name, its id, or at least four characters of either end of the id
    #[arg(value_name = "PLAN")]
    plan: PlanArgument,

    /// The text to send
    #[arg(value_name = "GUIDANCE")]
    guidance: String,
}

impl PlanPromptArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        if self.guidance.trim().is_empty() {
            return Err(CommandFailure::usage("the guidance is empty")
                .hint("write what the plan should know"));
        }
        if self.guidance.len() > TEXT_MAXIMUM {
            return Err(
                CommandFailure::usage("the guidance is too long").because(format!(
                    "it may be {TEXT_MAXIMUM} bytes long, this one has {}",
                    self.guidance.len()
                )),
            );
        }
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open()?;
        let plan = find(&app, &self.plan)?;
        let id = plan.identity.plan_id;
        let prompted = app.lifecycle();
        let guidance = app.mask_secrets(&self.guidance)?;
        let prompted = app.block_on(prompted.prompt(id, &guidance, app.actor()))?;
        let (to, said) = match prompted.to {
            MessageRecipient::Owner => ("owner", "the running process receives it next"),
            MessageRecipient::NextOwner => ("next_owner", "the plan receives it when it runs next"),
        };
        let mut data = plan_data(&prompted.plan);
        let more = json!({
            "guidance": self.guidance,
            "message_id": prompted.message.id,
            "sequence": prompted.message.sequence,
            "delivered_to": to,
        });
        if let Value::Object(more) = more {
            data.extend(more);
        }
        let view = OutputView::new().panel(
            "Guidance",
            [
                ("plan", ViewCell::new(id.short(), Tone::Strong)),
                ("state", position_cell(prompted.plan.position)),
                ("guidance", excerpt(&self.guidance).into()),
                ("number", prompted.message.sequence.to_string().into()),
            ],
        );
        let answer =
            CommandAnswer::new(Value::Object(data), view).with_message(MessageLevel::Info, said);
        Ok(match prompted.to {
            MessageRecipient::Owner => answer,
            MessageRecipient::NextOwner => {
                answer.with_message(MessageLevel::Hint, format!("agents plan resume {id}"))
            }
        })
    }
}

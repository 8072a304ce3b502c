//! `agents plan prompt`

use clap::Args;
use cleveragents_api::plan::PlanPrompt;

use super::view::summary_cell;
use crate::argument_types::{PLAN_HELP, PlanArgument};
use crate::commands::CommandContext;
use crate::failure::{CommandFailure, excerpt};
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell};

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
    #[arg(value_name = "PLAN", help = PLAN_HELP)]
    plan: PlanArgument,

    /// The text to send
    #[arg(value_name = "GUIDANCE")]
    guidance: String,
}

impl PlanPromptArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let reply = context.call_for_plan(&self.plan, |plan| PlanPrompt {
            plan,
            guidance: self.guidance.clone(),
        })?;
        CommandAnswer::from_reply(reply, |sent| {
            let id = sent.plan.plan_id.short();
            let rows = [
                ("plan", ViewCell::new(id, Tone::Strong)),
                ("state", summary_cell(&sent.plan)),
                ("guidance", excerpt(&sent.guidance).into()),
                ("number", sent.sequence.to_string().into()),
            ];
            OutputView::new().panel("Guidance", rows)
        })
    }
}

//! `agents plan checkpoints`

use clap::Args;
use cleveragents_api::plan::PlanCheckpoints;
use cleveragents_api::plan::checkpoints::PlanCheckpoint;

use crate::argument_types::{PLAN_HELP, PlanArgument};
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell};

const HEADERS: [&str; 5] = ["number", "checkpoint", "made", "label", "state"];

/// List a plan's checkpoints: sandbox states that can be restored
///
/// Checkpoints are created automatically: before and after each tool that writes, and on errors
/// (`sandbox.checkpoint.auto-create-on`).
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan checkpoints 4k2m9x0q
  agents plan checkpoints 4k2m9x0q --format json")]
pub struct PlanCheckpointsArgs {
    #[arg(value_name = "PLAN", help = PLAN_HELP)]
    plan: PlanArgument,
}

impl PlanCheckpointsArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let reply = context.call_for_plan(&self.plan, |plan| PlanCheckpoints { plan })?;
        CommandAnswer::from_reply(reply, |page| {
            let rows = page.checkpoints.iter().map(row);
            OutputView::new().table("Checkpoints", &HEADERS, rows)
        })
    }
}

fn row(checkpoint: &PlanCheckpoint) -> Vec<ViewCell> {
    let state = match checkpoint.undone_by {
        None => ViewCell::new("active", Tone::Good),
        Some(_) => ViewCell::new("undone", Tone::Faint),
    };
    vec![
        checkpoint.number.to_string().into(),
        checkpoint.id.short().into(),
        ViewCell::time(checkpoint.created_at, Tone::Faint),
        checkpoint.label.clone().into(),
        state,
    ]
}

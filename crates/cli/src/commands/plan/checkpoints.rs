//! `agents plan checkpoints`

use clap::Args;
use cleveragents_domain::checkpoint::Checkpoint;
use serde_json::{Value, json};

use super::view::find;
use crate::argument_types::PlanArgument;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell, format_count};

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
    /// The plan: its name, its id, or at least four characters of either end of the id
    #[arg(value_name = "PLAN")]
    plan: PlanArgument,
}

impl PlanCheckpointsArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_to_read()?;
        let plan = find(&app, &self.plan)?;
        let id = plan.identity.plan_id;
        let look = app.store().read(move |tx| tx.checkpoints_of(id));
        let mut found = app.block_on(look)?;
        found.reverse();
        let data = json!({
            "plan_id": id,
            "checkpoints": found.iter().map(data).collect::<Vec<Value>>(),
            "summary": { "total": found.len() },
        });
        let headers = ["number", "checkpoint", "made", "label", "state"];
        let view = OutputView::new().table("Checkpoints", &headers, found.iter().map(row));
        let number = i64::try_from(found.len()).unwrap_or(i64::MAX);
        Ok(CommandAnswer::new(data, view).with_message(
            MessageLevel::Info,
            format!("{} listed", format_count(number, "checkpoint")),
        ))
    }
}

fn data(checkpoint: &Checkpoint) -> Value {
    json!({
        "id": checkpoint.id,
        "number": checkpoint.number,
        "trigger": checkpoint.trigger,
        "phase": checkpoint.phase,
        "attempt": checkpoint.attempt,
        "step": checkpoint.step,
        "call_number": checkpoint.call_number,
        "decision_id": checkpoint.decision_id,
        "label": checkpoint.label,
        "trees": checkpoint.trees,
        "created_at": checkpoint.created_at,
        "undone_by": checkpoint.undone_by,
    })
}

fn row(checkpoint: &Checkpoint) -> Vec<ViewCell> {
    let state = match checkpoint.undone_by {
        None => ViewCell::new("active", Tone::Good),
        Some(_) => ViewCell::new("undone", Tone::Faint),
    };
    vec![
        checkpoint.number.to_string().into(),
        checkpoint.id.short().into(),
        ViewCell::new(checkpoint.created_at.to_string(), Tone::Faint),
        checkpoint.label.clone().into(),
        state,
    ]
}

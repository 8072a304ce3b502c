//! `agents plan checkpoints`

use clap::Args;
use cleveragents_domain::checkpoint::Checkpoint;
use serde_json::{Value, json};

use super::shown::find;
use crate::commands::Context;
use crate::failure::Failure;
use crate::output::{Answer, Cell, Level, Tone, View, counted};
use crate::typed::PlanArgument;

/// List the states of a plan's sandboxes that can be gone back to
///
/// They are made by themselves: before and after each tool that writes, and on errors
/// (`sandbox.checkpoint.auto-create-on`).
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan checkpoints 4k2m9x0q
  agents plan checkpoints 4k2m9x0q --format json")]
pub struct Checkpoints {
    /// The plan: its name, its id, or at least four characters of either end of the id
    #[arg(value_name = "PLAN")]
    plan: PlanArgument,
}

impl Checkpoints {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let wiring = context.wiring()?;
        let wired = wiring.open_to_read()?;
        let plan = find(&wired, &self.plan)?;
        let id = plan.identity.plan_id;
        let look = wired.store().read(move |unit| unit.checkpoints_of(id));
        let mut found = wired.wait(look)?;
        found.reverse();
        let data = json!({
            "plan_id": id,
            "checkpoints": found.iter().map(data).collect::<Vec<Value>>(),
            "summary": { "total": found.len() },
        });
        let headers = ["number", "checkpoint", "made", "label", "state"];
        let view = View::new().table("Checkpoints", &headers, found.iter().map(row));
        let number = i64::try_from(found.len()).unwrap_or(i64::MAX);
        Ok(Answer::new(data, view).say(
            Level::Info,
            format!("{} listed", counted(number, "checkpoint")),
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

fn row(checkpoint: &Checkpoint) -> Vec<Cell> {
    let state = match checkpoint.undone_by {
        None => Cell::new("stands", Tone::Good),
        Some(_) => Cell::new("undone", Tone::Faint),
    };
    vec![
        checkpoint.number.to_string().into(),
        checkpoint.id.short().into(),
        Cell::new(checkpoint.created_at.to_string(), Tone::Faint),
        checkpoint.label.clone().into(),
        state,
    ]
}

//! `agents plan rollback`

use clap::Args;
use cleveragents_domain::checkpoint::Checkpoint;
use cleveragents_engine::execution::{CheckpointChoice, Rollback as Done};
use cleveragents_engine::ports::sandbox::DiffStat;
use serde_json::{Value, json};

use super::aborting::abort_stopped_apply;
use super::shown::{confirmed, find, position, standing};
use crate::commands::Context;
use crate::failure::Failure;
use crate::output::{Answer, Cell, Level, Tone, View, counted};
use crate::typed::PlanArgument;

/// Set a plan's sandboxes back to a checkpoint
///
/// The files are then exactly as they were; what was done after the checkpoint is marked as undone,
/// never removed. How the sandboxes stood before is kept as a checkpoint of its own, so this can be
/// undone in the same way. The plan waits for your word to go on.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan checkpoints 4k2m9x0q
  agents plan rollback 4k2m9x0q 3
  agents plan rollback 4k2m9x0q 01jz4q7x --yes")]
pub struct Rollback {
    /// The plan: its name, its id, or at least four characters of either end of the id
    #[arg(value_name = "PLAN")]
    plan: PlanArgument,

    /// The checkpoint: its number, its id, or at least four characters of either end of the id
    #[arg(value_name = "CHECKPOINT")]
    checkpoint: String,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

impl Rollback {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let choice = self.choice()?;
        let wiring = context.wiring()?;
        let (wired, plan) = wiring.open_to_abandon(|wired| find(wired, &self.plan))?;
        let id = plan.identity.plan_id;
        let question = format!(
            "Set plan {} back to checkpoint {}?",
            plan.name, self.checkpoint
        );
        confirmed(&question, self.yes, context, "nothing was set back")?;
        abort_stopped_apply(&wired, &plan)?;
        let executor = wired.executor()?;
        let done = wired.wait(executor.rollback(id, choice, wired.actor()))?;
        let left = wired.wait(executor.checkpoints(id))?;
        Ok(answer(&done, &left))
    }

    /// Short numbers are places, everything else is an id.
    fn choice(&self) -> Result<CheckpointChoice, Failure> {
        let typed = self.checkpoint.trim();
        if typed.len() < 4
            && let Ok(number) = typed.parse::<i64>()
        {
            return Ok(CheckpointChoice::Number(number));
        }
        let fragment = typed.parse().map_err(|error| {
            Failure::usage(format!("`{typed}` names no checkpoint: {error}"))
                .hint(format!("agents plan checkpoints {}", self.plan.0.as_str()))
        })?;
        Ok(CheckpointChoice::Id(fragment))
    }
}

fn answer(done: &Done, left: &[Checkpoint]) -> Answer {
    let rolled = &done.done;
    let (plan, checkpoint, back) = (&rolled.plan, &rolled.checkpoint, &rolled.back);
    let id = plan.identity.plan_id;
    let remaining = left.iter().filter(|it| it.undone_by.is_none()).count();
    let reverted: Vec<Value> = done.files.iter().map(file).collect();
    let mut data = standing(plan);
    let more = json!({
        "rollback_summary": {
            "plan": id,
            "checkpoint": checkpoint.id,
            "number": checkpoint.number,
            "label": checkpoint.label,
            "files_reverted": done.files.len(),
        },
        "changes_reverted": reverted,
        "impact": {
            "child_plans_invalidated": 0,
            "sandbox": "set back",
            "changes_undone": back.changes,
            "decisions_after_cp": rolled.decisions.len(),
            "tool_calls_after_cp": back.calls,
        },
        "post_rollback_state": {
            "phase": plan.position.phase(),
            "state": plan.position.state(),
            "checkpoints_remaining": remaining,
        },
        "undo": { "checkpoint": back.set_aside.id, "number": back.set_aside.number },
    });
    if let Value::Object(more) = more {
        data.extend(more);
    }
    let number = |count: u64, what| counted(i64::try_from(count).unwrap_or(i64::MAX), what);
    let rows = vec![
        ("plan", Cell::new(id.short(), Tone::Strong)),
        (
            "checkpoint",
            format!("{} ({})", checkpoint.number, checkpoint.label).into(),
        ),
        ("files set back", done.files.len().to_string().into()),
        ("undone", number(back.calls, "tool call").into()),
        ("stands at", position(plan.position)),
    ];
    let mut view = View::new().panel("Rolled back", rows);
    if !done.files.is_empty() {
        let rows = done.files.iter().map(|it| vec![it.path.to_string().into()]);
        view = view.table("Files", &["path"], rows);
    }
    Answer::new(Value::Object(data), view)
        .say(Level::Info, "Rolled back")
        .say(
            Level::Hint,
            format!("agents plan rollback {id} {}", back.set_aside.number),
        )
        .say(Level::Hint, format!("agents plan execute {id}"))
}

fn file(stat: &DiffStat) -> Value {
    json!({ "file": stat.path, "action": "set back" })
}

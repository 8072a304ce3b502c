//! `agents plan rollback`

use clap::Args;
use cleveragents_domain::checkpoint::Checkpoint;
use cleveragents_engine::execution::{CheckpointChoice, RollbackOutcome as Done};
use cleveragents_ports::sandbox::DiffStat;
use serde_json::{Value, json};

use super::abort_apply::abort_stopped_apply;
use super::view::{confirm_or_fail, find, plan_data, position_cell};
use crate::argument_types::PlanArgument;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell, format_count};

/// Restore a plan's sandboxes to a checkpoint
///
/// The files are restored exactly; work after the checkpoint is marked as undone, not deleted. The
/// state before the rollback is kept as a checkpoint, so a rollback can be undone in the same way.
/// The plan then waits for `agents plan execute`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan checkpoints 4k2m9x0q
  agents plan rollback 4k2m9x0q 3
  agents plan rollback 4k2m9x0q 01jz4q7x --yes")]
pub struct PlanRollbackArgs {
    /// The plan: its name, its id, or at least four characters of either end of the id
    #[arg(value_name = "PLAN")]
    plan: PlanArgument,

    /// The checkpoint: its number, its id, or at least four characters of either end of the id;
    /// 0 is the state before the first call
    #[arg(value_name = "CHECKPOINT")]
    checkpoint: String,

    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

impl PlanRollbackArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let choice = self.checkpoint_choice()?;
        let bootstrap = context.bootstrap()?;
        let (app, plan) = bootstrap.open_to_abandon(|app| find(app, &self.plan))?;
        let id = plan.identity.plan_id;
        let question = format!(
            "Roll plan {} back to checkpoint {}?",
            plan.name, self.checkpoint
        );
        confirm_or_fail(&question, self.yes, context, "nothing was rolled back")?;
        abort_stopped_apply(&app, &plan)?;
        let executor = app.executor()?;
        let done = app.block_on(executor.rollback(id, choice, app.actor()))?;
        let left = app.block_on(executor.checkpoints(id))?;
        Ok(answer(&done, &left))
    }

    /// Parses the checkpoint: numbers of up to three digits are positions, anything else is an id.
    fn checkpoint_choice(&self) -> Result<CheckpointChoice, CommandFailure> {
        let typed = self.checkpoint.trim();
        if typed.len() < 4
            && let Ok(number) = typed.parse::<i64>()
        {
            return Ok(CheckpointChoice::Number(number));
        }
        let fragment = typed.parse().map_err(|error| {
            CommandFailure::usage(format!("`{typed}` names no checkpoint: {error}"))
                .hint(format!("agents plan checkpoints {}", self.plan.0.as_str()))
        })?;
        Ok(CheckpointChoice::Id(fragment))
    }
}

fn answer(done: &Done, remaining: &[Checkpoint]) -> CommandAnswer {
    let rolled = &done.record;
    let (plan, checkpoint, back) = (&rolled.plan, &rolled.checkpoint, &rolled.back);
    let id = plan.identity.plan_id;
    let remaining = remaining.iter().filter(|it| it.undone_by.is_none()).count();
    let reverted: Vec<Value> = done.files.iter().map(file_data).collect();
    let mut data = plan_data(plan);
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
    let number = |count: u64, what| format_count(i64::try_from(count).unwrap_or(i64::MAX), what);
    let rows = vec![
        ("plan", ViewCell::new(id.short(), Tone::Strong)),
        (
            "checkpoint",
            format!("{} ({})", checkpoint.number, checkpoint.label).into(),
        ),
        ("files restored", done.files.len().to_string().into()),
        ("undone", number(back.calls, "tool call").into()),
        ("state", position_cell(plan.position)),
    ];
    let mut view = OutputView::new().panel("Rolled back", rows);
    if !done.files.is_empty() {
        let rows = done.files.iter().map(|it| vec![it.path.to_string().into()]);
        view = view.table("Files", &["path"], rows);
    }
    CommandAnswer::new(Value::Object(data), view)
        .with_message(MessageLevel::Info, "Rolled back")
        .with_message(
            MessageLevel::Hint,
            format!("agents plan rollback {id} {}", back.set_aside.number),
        )
        .with_message(MessageLevel::Hint, format!("agents plan execute {id}"))
}

fn file_data(stat: &DiffStat) -> Value {
    json!({ "file": stat.path, "action": "set back" })
}

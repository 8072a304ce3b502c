//! `agents plan rollback`

use clap::Args;
use cleveragents_api::RequestKind;
use cleveragents_api::plan::rollback::RolledBackPlan;
use cleveragents_api::plan::{PlanFind, PlanRollback};
use cleveragents_app::plan::parse_checkpoint;

use super::view::{confirm_or_fail, summary_cell};
use crate::argument_types::{PLAN_HELP, PlanArgument};
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell, format_count};
use crate::plan_lookup::plan_reference;

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
    #[arg(value_name = "PLAN", help = PLAN_HELP)]
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
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_for_requests(RequestKind::Write)?;
        let plan = plan_reference(&app, &self.plan)?;
        parse_checkpoint(&self.checkpoint, &plan)?;
        let plan = app.call(PlanFind { plan })?.answer;
        let question = format!(
            "Roll plan {} back to checkpoint {}?",
            plan.name, self.checkpoint
        );
        confirm_or_fail(&question, self.yes, context, "nothing was rolled back")?;
        // The plan that the question named, even if the reference matches another one by now.
        let reply = app.call(PlanRollback {
            plan: plan.plan_id.into(),
            checkpoint: self.checkpoint.clone(),
        })?;
        CommandAnswer::from_reply(reply, view)
    }
}

fn view(done: &RolledBackPlan) -> OutputView {
    let (plan, summary) = (&done.plan, &done.rollback_summary);
    let calls = i64::try_from(done.impact.tool_calls_after_cp).unwrap_or(i64::MAX);
    let rows = [
        ("plan", ViewCell::new(plan.plan_id.short(), Tone::Strong)),
        (
            "checkpoint",
            format!("{} ({})", summary.number, summary.label).into(),
        ),
        ("files restored", summary.files_reverted.to_string().into()),
        ("undone", format_count(calls, "tool call").into()),
        ("state", summary_cell(plan)),
    ];
    let view = OutputView::new().panel("Rolled back", rows);
    if done.changes_reverted.is_empty() {
        return view;
    }
    let files = done.changes_reverted.iter();
    let rows = files.map(|it| vec![it.file.to_string().into()]);
    view.table("Files", &["path"], rows)
}

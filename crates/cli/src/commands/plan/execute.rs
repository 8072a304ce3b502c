//! `agents plan execute`

use clap::Args;
use cleveragents_api::RequestKind;
use cleveragents_api::plan::PlanExecute;
use cleveragents_api::plan::drive::DriveAnswer;
use cleveragents_api::plan::execute::ExecutedPlan;

use super::apply::applied_view;
use super::cost::cost_rows;
use super::progress::{PlanProgress, run_work, sandbox_rows};
use super::question::answer_questions;
use super::view::summary_cell;
use crate::argument_types::{PLAN_HELP, PlanArgument};
use crate::arguments::Format;
use crate::commands::{CommandContext, OutputMode};
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell};
use crate::plan_lookup::find_plan;

/// Run a plan until it needs your approval
///
/// Runs Strategize, then Execute if the plan's automation profile allows it; otherwise this stops
/// with exit code 5, and running the command again approves the strategy. All work is done in
/// sandboxes: your files do not change before the plan is applied. Work that was confirmed before a
/// crash is not repeated.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan execute 4k2m9x0q
  agents plan execute 4k2m9x0q --events
  agents plan execute 4k2m9x0q --detach
  agents plan execute 4k2m9x0q --format json")]
pub struct PlanExecuteArgs {
    #[arg(value_name = "PLAN", help = PLAN_HELP)]
    plan: PlanArgument,

    /// Do not wait: queue the plan for `agents plan resume`
    #[arg(long, conflicts_with = "events")]
    detach: bool,

    /// Write each event as a line of JSON as it happens, and the envelope as the last line
    #[arg(long)]
    events: bool,
}

impl PlanExecuteArgs {
    pub fn output_mode(&self, _: Format) -> OutputMode {
        if self.events {
            OutputMode::Events
        } else {
            OutputMode::Answer
        }
    }

    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_for_requests(RequestKind::Work)?;
        let plan = find_plan(&app, &self.plan)?;
        let id = plan.plan_id;
        let request = PlanExecute {
            plan: id.into(),
            detach: self.detach,
        };
        if self.detach {
            return CommandAnswer::from_reply(app.call(request)?, executed_view);
        }
        let progress = PlanProgress::new(self.events, context);
        progress.announce(&plan);
        let reply = run_work(&app, &progress, id, request)?;
        let reply = answer_questions(&app, &progress, context, reply)?;
        CommandAnswer::from_reply(reply, drive_view)
    }
}

/// Displays where a plan got to.
pub(crate) fn drive_view(answer: &DriveAnswer) -> OutputView {
    match answer {
        DriveAnswer::Applied(applied) => applied_view(applied),
        DriveAnswer::Executed(executed) => executed_view(executed),
    }
}

fn executed_view(executed: &ExecutedPlan) -> OutputView {
    let plan = &executed.plan;
    let mut rows = vec![
        ("plan", ViewCell::new(plan.plan_id.short(), Tone::Strong)),
        ("name", plan.name.to_string().into()),
        ("state", summary_cell(plan)),
        ("tool calls", executed.tool_calls.to_string().into()),
        ("changes", executed.changes.to_string().into()),
    ];
    if let Some(summary) = &executed.strategy_summary.summary {
        rows.insert(3, ("strategy", summary.clone().into()));
    }
    rows.extend(cost_rows(&executed.cost));
    let view = OutputView::new().panel("Plan", rows);
    if executed.sandboxes.is_empty() {
        return view;
    }
    let headers = ["resource", "sandbox", "state"];
    view.table("Sandboxes", &headers, sandbox_rows(&executed.sandboxes))
}

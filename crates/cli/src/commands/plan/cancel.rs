//! `agents plan cancel`

use clap::Args;
use cleveragents_api::plan::PlanCancel;
use cleveragents_api::plan::cancel::CancelledPlan;

use super::view::summary_cell;
use crate::argument_types::{PLAN_HELP, PlanArgument};
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell};

/// Cancel a plan
///
/// A plan that is not running is cancelled at once. Otherwise its process is asked to stop, and
/// this command waits until it has. The plan's work so far is kept. An apply that stopped half-way
/// is aborted and undone first. Cancelling a finished plan shows its final state.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan cancel 4k2m9x0q
  agents plan cancel 4k2m9x0q --reason 'wrong branch'
  agents plan cancel 4k2m9x0q --wait 0")]
pub struct PlanCancelArgs {
    #[arg(value_name = "PLAN", help = PLAN_HELP)]
    plan: PlanArgument,

    /// The reason, for the record
    #[arg(
        short,
        long,
        value_name = "REASON",
        default_value = "cancelled by hand"
    )]
    reason: String,

    /// Seconds to wait for the process that runs the plan
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    wait: u64,
}

impl PlanCancelArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let reply = context.call_for_plan(&self.plan, |plan| PlanCancel {
            plan,
            reason: Some(self.reason.clone()),
            wait: Some(self.wait),
        })?;
        CommandAnswer::from_reply(reply, view)
    }
}

fn view(cancelled: &CancelledPlan) -> OutputView {
    let plan = &cancelled.plan;
    let mut rows = vec![
        ("plan", ViewCell::new(plan.plan_id.short(), Tone::Strong)),
        ("name", plan.name.to_string().into()),
        ("state", summary_cell(plan)),
    ];
    if let Some(reason) = &cancelled.reason {
        rows.push(("reason", reason.clone().into()));
    }
    OutputView::new().panel("Plan", rows)
}

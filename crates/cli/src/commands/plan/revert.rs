//! `agents plan revert`

use clap::Args;
use cleveragents_api::plan::PlanRevert;
use cleveragents_api::plan::revert::RevertedPlan;
use cleveragents_domain::Phase;

use super::view::summary_cell;
use crate::argument_types::{PLAN_HELP, PlanArgument, parse_value};
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell};

/// Return a plan to Strategize for a new strategy
///
/// A plan can be reverted from execute or apply three times; from a failed strategize without
/// limit. Its decisions are kept, and the reason is passed to the next attempt.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan revert 4k2m9x0q --reason 'the tests must stay as they are'
  agents plan revert 4k2m9x0q --to-phase strategize")]
pub struct PlanRevertArgs {
    #[arg(value_name = "PLAN", help = PLAN_HELP)]
    plan: PlanArgument,

    /// The phase to return to; only `strategize` is valid
    #[arg(long, value_name = "PHASE", default_value = "strategize", value_parser = parse_value::<Phase>)]
    to_phase: Phase,

    /// The reason, for the record and the next attempt
    #[arg(short, long, value_name = "REASON", default_value = "reverted by hand")]
    reason: String,
}

impl PlanRevertArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let reply = context.call_for_plan(&self.plan, |plan| PlanRevert {
            plan,
            to_phase: Some(self.to_phase),
            reason: Some(self.reason.clone()),
        })?;
        CommandAnswer::from_reply(reply, view)
    }
}

fn view(reverted: &RevertedPlan) -> OutputView {
    let (plan, from) = (&reverted.plan, reverted.from);
    let rows = [
        ("plan", ViewCell::new(plan.plan_id.short(), Tone::Strong)),
        ("name", plan.name.to_string().into()),
        (
            "previous state",
            format!("{}/{}", from.phase, from.state).into(),
        ),
        ("state", summary_cell(plan)),
        (
            "reversions left",
            reverted.reversions_left.to_string().into(),
        ),
    ];
    OutputView::new().panel("Plan", rows)
}

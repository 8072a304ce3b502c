//! `agents plan revert`

use clap::Args;
use cleveragents_domain::Phase;
use cleveragents_domain::lifecycle::MAX_REVERSIONS;
use cleveragents_engine::lifecycle::PlanMoveOutcome;
use serde_json::{Value, json};

use super::abort_apply::abort_stopped_apply;
use super::view::{find, plan_data, position_cell};
use crate::argument_types::{PlanArgument, parse_value};
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell};

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
    /// The plan: its name, its id, or at least four characters of either end of the id
    #[arg(value_name = "PLAN")]
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
        let bootstrap = context.bootstrap()?;
        let (app, before) = bootstrap.open_to_abandon(|app| find(app, &self.plan))?;
        let id = before.identity.plan_id;
        let lifecycle = app.lifecycle();
        let reason = app.mask_secrets(&self.reason)?;
        abort_stopped_apply(&app, &before)?;
        app.end_leftover_commands(id);
        let moved = lifecycle.revert(id, self.to_phase, &reason, app.actor());
        let moved = app.block_on(moved)?;
        let plan = moved.plan();
        let left = MAX_REVERSIONS.saturating_sub(plan.position.reversions());
        let mut data = plan_data(plan);
        let more = json!({
            "reason": self.reason,
            "from": {"phase": before.position.phase(), "state": before.position.state()},
            "reversions": plan.position.reversions(),
            "reversions_left": left,
        });
        if let Value::Object(more) = more {
            data.extend(more);
        }
        let view = OutputView::new().panel(
            "Plan",
            [
                ("plan", ViewCell::new(id.short(), Tone::Strong)),
                ("name", plan.name.to_string().into()),
                ("previous state", before.position.to_string().into()),
                ("state", position_cell(plan.position)),
                ("reversions left", left.to_string().into()),
            ],
        );
        let answer = CommandAnswer::new(Value::Object(data), view);
        Ok(match moved {
            PlanMoveOutcome::Moved(_) => answer.with_message(MessageLevel::Info, "Plan reverted"),
            PlanMoveOutcome::Unchanged(plan) => answer.with_message(
                MessageLevel::Info,
                format!("nothing to revert: the plan is at {}", plan.position),
            ),
        })
    }
}

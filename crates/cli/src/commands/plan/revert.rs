//! `agents plan revert`

use clap::Args;
use cleveragents_domain::Phase;
use cleveragents_domain::lifecycle::MAX_REVERSIONS;
use cleveragents_engine::lifecycle::Moved;
use serde_json::{Value, json};

use super::aborting::abort_stopped_apply;
use super::shown::{find, position, standing};
use crate::commands::Context;
use crate::failure::Failure;
use crate::output::{Answer, Cell, Level, Tone, View};
use crate::typed::{PlanArgument, word};

/// Send a plan back to make another strategy
///
/// From execute or apply a plan goes back three times at most; from its own errored strategize as
/// often as you like. What it learned is kept, and the reason is what the next attempt is told.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan revert 4k2m9x0q --reason 'the tests must stay as they are'
  agents plan revert 4k2m9x0q --to-phase strategize")]
pub struct Revert {
    /// The plan: its name, its id, or at least four characters of either end of the id
    #[arg(value_name = "PLAN")]
    plan: PlanArgument,

    /// Where to go back to; there is only one place
    #[arg(long, value_name = "PHASE", default_value = "strategize", value_parser = word::<Phase>)]
    to_phase: Phase,

    /// Why, for the record and the next attempt
    #[arg(short, long, value_name = "REASON", default_value = "reverted by hand")]
    reason: String,
}

impl Revert {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let wiring = context.wiring()?;
        let (wired, before) = wiring.open_to_abandon(|wired| find(wired, &self.plan))?;
        let id = before.identity.plan_id;
        let lifecycle = wired.lifecycle();
        let reason = wired.hide(&self.reason)?;
        abort_stopped_apply(&wired, &before)?;
        wired.end_left_over(id);
        let moved = lifecycle.revert(id, self.to_phase, &reason, wired.actor());
        let moved = wired.wait(moved)?;
        let plan = moved.plan();
        let left = MAX_REVERSIONS.saturating_sub(plan.position.reversions());
        let mut data = standing(plan);
        let more = json!({
            "reason": self.reason,
            "from": {"phase": before.position.phase(), "state": before.position.state()},
            "reversions": plan.position.reversions(),
            "reversions_left": left,
        });
        if let Value::Object(more) = more {
            data.extend(more);
        }
        let view = View::new().panel(
            "Plan",
            [
                ("plan", Cell::new(id.short(), Tone::Strong)),
                ("name", plan.name.to_string().into()),
                ("was at", before.position.to_string().into()),
                ("stands at", position(plan.position)),
                ("reversions left", left.to_string().into()),
            ],
        );
        let answer = Answer::new(Value::Object(data), view);
        Ok(match moved {
            Moved::Moved(_) => answer.say(Level::Info, "Plan reverted"),
            Moved::Stands(plan) => answer.say(
                Level::Info,
                format!("nothing to revert: the plan is at {}", plan.position),
            ),
        })
    }
}

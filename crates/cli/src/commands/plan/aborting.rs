//! Commands that leave an apply behind abort it first, if it stopped after its decision.

use cleveragents_domain::{Plan, PointOfNoReturn};
use cleveragents_engine::applying::AbortOutcome;
use cleveragents_engine::ports::targets::Destination;

use super::apply::blocked;
use crate::failure::Failure;
use crate::wiring::Wired;

/// Takes back what a stopped apply wrote, so that the plan can be cancelled, reverted or changed.
/// Fails if somebody changed what was written since: both ways then stay open.
pub(super) fn abort_stopped_apply(wired: &Wired<'_>, plan: &Plan) -> Result<(), Failure> {
    let at = plan.position;
    if at.is_terminal() || at.point_of_no_return() == PointOfNoReturn::Ahead {
        return Ok(());
    }
    let id = plan.identity.plan_id;
    let service = wired.applies()?;
    let ask = wired.apply_ask(id, Destination::Current);
    match wired.wait(service.abort(&ask))? {
        AbortOutcome::Nothing(_) => Ok(()),
        AbortOutcome::Aborted(plan) => {
            tracing::warn!(
                "the stopped apply of plan {} was aborted: nothing of it is left",
                plan.name
            );
            Ok(())
        }
        AbortOutcome::Blocked { plan, conflicts } => Err(blocked(
            &plan,
            &conflicts,
            "the stopped apply cannot be aborted: what it wrote was changed since",
        )
        .hint(format!("agents plan apply {id}"))
        .hint("put the files back as they were, or commit them, and run this command again")),
    }
}

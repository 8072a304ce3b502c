//! Aborts an apply that stopped after its decision, for commands that abandon it.

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{Plan, PointOfNoReturn};
use cleveragents_engine::applying::{AbortOutcome, ApplyFailure};
use cleveragents_engine::execution::ExecutionError;
use cleveragents_engine::lifecycle::LifecycleError;
use cleveragents_ports::targets::Destination;

use super::apply::blocked_failure;
use crate::bootstrap::AppContext;
use crate::failure::CommandFailure;

/// Undoes what a stopped apply wrote, so that the plan can be cancelled, reverted or changed. Fails
/// if another process works on the apply, or if the written files were changed since. Then the
/// apply can still be finished or aborted later.
pub(super) fn abort_stopped_apply(app: &AppContext<'_>, plan: &Plan) -> Result<(), CommandFailure> {
    let at = plan.position;
    if at.is_terminal() || at.point_of_no_return() == PointOfNoReturn::Ahead {
        return Ok(());
    }
    let id = plan.identity.plan_id;
    let service = app.apply_service()?;
    let request = app.apply_request(id, Destination::Current);
    match app
        .block_on(service.abort(&request))
        .map_err(|error| abort_failure(error, id))?
    {
        AbortOutcome::NothingToAbort(_) => Ok(()),
        AbortOutcome::Aborted(plan) => {
            tracing::warn!(
                "the stopped apply of plan {} was aborted and undone",
                plan.name
            );
            Ok(())
        }
        AbortOutcome::Blocked { plan, conflicts } => Err(blocked_failure(
            &plan,
            &conflicts,
            "the stopped apply cannot be aborted: its files were changed since",
        )
        .hint(format!("agents plan apply {id}"))
        .hint("restore or commit the files, then run this command again")),
    }
}

/// Converts the error of an abort. If another process works on the apply, replaces the hints:
/// `cancel` would fail for the same reason.
fn abort_failure(error: ApplyFailure, id: PlanId) -> CommandFailure {
    let is_owned = matches!(
        &error,
        ApplyFailure::Execution(error)
            if matches!(**error, ExecutionError::Lifecycle(LifecycleError::Owned { .. }))
    );
    let mut failure = CommandFailure::from(error);
    if is_owned {
        failure.next_steps = vec![format!("agents plan log {id} --follow").into()];
        failure =
            failure.because("its apply is past the point of no return; that process finishes it");
    }
    failure
}

//! Aborts an unfinished apply of a plan, for requests that abandon it: cancel, revert, reject,
//! rollback, correct and rebase. Their handlers have [`RecoveryPolicy::ByHandler`].
//!
//! [`RecoveryPolicy::ByHandler`]: crate::RecoveryPolicy::ByHandler

use cleveragents_api::NextStep;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{Plan, PointOfNoReturn};
use cleveragents_engine::applying::{AbortOutcome, ApplyFailure};
use cleveragents_engine::execution::ExecutionError;
use cleveragents_engine::lifecycle::LifecycleError;
use cleveragents_ports::targets::Destination;

use crate::app::Caller;
use crate::execution::apply_request;
use crate::failure::{RequestError, apply_conflict_failure};
use crate::next_steps::apply_step;
use crate::notices::warning;
use crate::recover_applies::recover_applies;
use crate::services::Services;

/// Recovers the unfinished applies of other plans and aborts the one of this plan, even if it
/// was already decided, because the user wants the opposite. Returns the plan as it was before
/// its apply was aborted.
///
/// Fails if another process works on the apply, or if the written files were changed since.
/// Then the apply can still be finished or aborted later.
pub(crate) async fn abandon_apply(
    services: &Services,
    plan: PlanId,
    caller: &Caller,
) -> Result<Plan, RequestError> {
    let recovered = recover_applies(services, Some(plan), caller).await?;
    services.notices.add(recovered);
    // Read after the recovery, which aborts an undecided apply and so changes the plan.
    let plan = services.lifecycle().plan(plan).await?;
    abort_stopped_apply(services, &plan, caller).await?;
    Ok(plan)
}

/// Undoes what a stopped apply wrote, so that the plan can be cancelled, reverted or changed.
async fn abort_stopped_apply(
    services: &Services,
    plan: &Plan,
    caller: &Caller,
) -> Result<(), RequestError> {
    let at = plan.position;
    // No file was written, and the recovery has removed the prepared data of a dead owner.
    if at.is_terminal() || at.point_of_no_return() == PointOfNoReturn::Ahead {
        return Ok(());
    }
    let id = plan.identity.plan_id;
    let service = services.apply_service(caller)?;
    // The destination is not used: an abort takes the targets from the recorded intents.
    let request = apply_request(id, Destination::Current, caller);
    let outcome = service.abort(&request).await;
    match outcome.map_err(|error| abort_failure(error, id))? {
        AbortOutcome::NothingToAbort(_) => Ok(()),
        AbortOutcome::Aborted(plan) => {
            let text = format!(
                "the stopped apply of plan {} was aborted and undone",
                plan.name
            );
            services.notices.add(warning(text, []));
            Ok(())
        }
        AbortOutcome::Blocked { plan, conflicts } => Err(apply_conflict_failure(
            &plan,
            &conflicts,
            "the stopped apply cannot be aborted: its files were changed since",
        )
        .hint(apply_step(&plan))
        .hint("restore or commit the files, then run this command again")),
    }
}

/// Converts the error of an abort. If another process works on the apply, replaces the hints:
/// `cancel` would fail for the same reason.
fn abort_failure(error: ApplyFailure, id: PlanId) -> RequestError {
    let is_owned = matches!(
        &error,
        ApplyFailure::Execution(error)
            if matches!(**error, ExecutionError::Lifecycle(LifecycleError::Owned { .. }))
    );
    let mut failure = RequestError::from(error);
    if is_owned {
        failure.next_steps = vec![NextStep::Watch { plan: id }];
        failure =
            failure.because("its apply is past the point of no return; that process finishes it");
    }
    failure
}

//! Recovery of applies that a process on this machine left unfinished. Requests that write finish
//! them; all others only report them.

use cleveragents_domain::apply_record::ApplyState;
use cleveragents_domain::id::PlanId;
use cleveragents_engine::applying::{
    ApplyWorker, RecoveredApply, RecoveryReport, UnfinishedApply, unfinished_applies,
};
use cleveragents_ports::StoreError;

use crate::app::Caller;
use crate::execution::recovery_apply_service;
use crate::failure::RequestError;
use crate::services::Services;

/// Finishes or aborts applies whose process died. A failure is only logged, because the request
/// that the user sent does not depend on it. A decided apply of the plan `abandoned` is not
/// touched.
pub(crate) async fn recover_applies(
    services: &Services,
    abandoned: Option<PlanId>,
    caller: &Caller,
) -> Result<(), StoreError> {
    let left = find_unfinished_applies(services).await?;
    // Checked first, because building the engine's services needs git and confinement, which most
    // requests do not.
    if left.iter().any(|it| it.worker == ApplyWorker::Gone) {
        match try_recover_applies(services, abandoned, caller).await {
            Ok(recovery) => {
                recovery.done.iter().for_each(warn_recovered);
                for failure in recovery.failed {
                    warn_failed(services, &failure.to_string());
                }
            }
            // Only logged: the request that the user sent is independent of the applies of other
            // plans.
            Err(failure) => warn_failed(services, &failure.message),
        }
    }
    let others = left.iter().filter(|it| it.worker != ApplyWorker::Gone);
    others.for_each(|it| warn_unfinished(services, it));
    Ok(())
}

async fn try_recover_applies(
    services: &Services,
    abandoned: Option<PlanId>,
    caller: &Caller,
) -> Result<RecoveryReport, RequestError> {
    let service = recovery_apply_service(services, caller)?;
    Ok(service.recover(abandoned).await?)
}

/// Logs each unfinished apply and the command that finishes it.
pub(crate) async fn warn_unfinished_applies(services: &Services) -> Result<(), StoreError> {
    let left = find_unfinished_applies(services).await?;
    left.iter().for_each(|it| warn_unfinished(services, it));
    Ok(())
}

async fn find_unfinished_applies(services: &Services) -> Result<Vec<UnfinishedApply>, StoreError> {
    unfinished_applies(services.store(), &services.runs(), &services.deps().node).await
}

/// Logs an unfinished apply.
fn warn_unfinished(services: &Services, apply: &UnfinishedApply) {
    if let Some(text) = describe_unfinished(services, apply) {
        warn_once(services, &text);
    }
}

/// Logs an apply whose recovery failed.
fn warn_failed(services: &Services, reason: &str) {
    warn_once(
        services,
        &format!("an apply could not be finished: {reason}"),
    );
}

/// Logs a warning once for all requests of this process. `run` sends several requests, and each of
/// them finds the same unfinished apply.
fn warn_once(services: &Services, text: &str) {
    if services.process_state().warnings.is_new(text) {
        tracing::warn!("{text}");
    }
}

/// Says what is unfinished and what to do about it; nothing about an apply that makes progress.
fn describe_unfinished(services: &Services, apply: &UnfinishedApply) -> Option<String> {
    let (name, id) = (&apply.plan.name, apply.plan.identity.plan_id);
    match (apply.worker, apply.state) {
        // Progress of another process is no reason for a warning.
        (ApplyWorker::Working, _) => None,
        (ApplyWorker::Silent(owner), _) => {
            let deps = services.deps();
            let pid = deps.liveness.process_id(owner);
            Some(match pid.zip(deps.adapters.process_command(owner)) {
                Some((pid, command)) => format!(
                    "the apply of plan {name} does not respond: process {pid} ({command}) \
                     hangs or is stopped; `kill -CONT {pid}` continues it, or end it and run \
                     `agents plan resume {id}`"
                ),
                None => format!(
                    "the apply of plan {name} does not respond; see `agents plan status {id}`"
                ),
            })
        }
        (ApplyWorker::Gone, ApplyState::Preparing) => Some(format!(
            "an apply was interrupted before anything was changed: plan {name}; \
             `agents plan apply {id}` tries again"
        )),
        (ApplyWorker::Gone, _) => Some(format!(
            "an apply was interrupted: plan {name}; `agents plan resume {id}` finishes it"
        )),
    }
}

fn warn_recovered(recovered: &RecoveredApply) {
    match recovered {
        RecoveredApply::Finished(plan) => {
            tracing::warn!("an interrupted apply was finished: plan {}", plan.name);
        }
        RecoveredApply::Aborted(plan) => {
            tracing::warn!(
                "an apply was interrupted before anything was changed: plan {}; \
                 `agents plan apply {}` tries again",
                plan.name,
                plan.identity.plan_id
            );
        }
        RecoveredApply::Stopped(plan) => {
            tracing::warn!(
                "an interrupted apply cannot be finished: a target of plan {} was changed; see \
                 `agents plan status {}`",
                plan.name,
                plan.identity.plan_id
            );
        }
    }
}

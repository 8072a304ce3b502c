//! Recovery of applies that a process on this machine left unfinished. Requests that write finish
//! them; all others only report them.

use cleveragents_api::{Message, NextStep};
use cleveragents_domain::Plan;
use cleveragents_domain::apply_record::{ApplyDirection, ApplyState};
use cleveragents_domain::id::{OwnerId, PlanId};
use cleveragents_engine::applying::{
    ApplyWorker, FailedRecovery, RecoveredApply, RecoveryOutcome, RecoveryReport, UnfinishedApply,
    unfinished_applies,
};
use cleveragents_ports::StoreError;

use crate::app::Caller;
use crate::execution::recovery_apply_service;
use crate::failure::RequestError;
use crate::next_steps::{apply_step, resume_step, status_step, unapply_step};
use crate::notices::warning;
use crate::services::Services;

/// Finishes or aborts applies whose process died. Returns warnings about these and about other
/// unfinished applies. A failure is one of them, because the request that the user sent does not
/// depend on the applies of other plans. A decided apply of the plan `abandoned` is not touched.
pub(crate) async fn recover_applies(
    services: &Services,
    abandoned: Option<PlanId>,
    caller: &Caller,
) -> Result<Vec<Message>, StoreError> {
    let left = find_unfinished_applies(services).await?;
    let (mut done, mut warnings) = (Vec::new(), Vec::new());
    // Checked first, because building the engine's services needs git and confinement, which most
    // requests do not.
    if left.iter().any(|it| it.worker == ApplyWorker::Gone) {
        match try_recover_applies(services, abandoned, caller).await {
            Ok(recovery) => {
                done.extend(recovery.done.iter().flat_map(recovered_warning));
                let failed = recovery.failed.iter();
                warnings.extend(failed.map(failed_warning));
            }
            Err(failure) => {
                let gone = left.iter().filter(|it| it.worker == ApplyWorker::Gone);
                let reason = &failure.message;
                warnings.extend(gone.map(|it| unrecovered_warning(it.direction, reason)));
            }
        }
    }
    let others = left.iter().filter(|it| it.worker != ApplyWorker::Gone);
    warnings.extend(others.filter_map(|it| unfinished_warning(services, it)));
    done.extend(new_warnings(services, warnings));
    Ok(done)
}

async fn try_recover_applies(
    services: &Services,
    abandoned: Option<PlanId>,
    caller: &Caller,
) -> Result<RecoveryReport, RequestError> {
    let service = recovery_apply_service(services, caller)?;
    Ok(service.recover(abandoned).await?)
}

/// Returns a warning about each unfinished apply, with the step that finishes it.
pub(crate) async fn unfinished_apply_warnings(
    services: &Services,
) -> Result<Vec<Message>, StoreError> {
    let left = find_unfinished_applies(services).await?;
    let warnings = left
        .iter()
        .filter_map(|it| unfinished_warning(services, it));
    Ok(new_warnings(services, warnings))
}

async fn find_unfinished_applies(services: &Services) -> Result<Vec<UnfinishedApply>, StoreError> {
    unfinished_applies(services.store(), &services.runs(), &services.deps().node).await
}

/// Returns the warnings that this process has not sent before. `run` sends several requests, and
/// each of them finds the same unfinished apply.
fn new_warnings(
    services: &Services,
    warnings: impl IntoIterator<Item = Vec<Message>>,
) -> Vec<Message> {
    let sent = &services.process_state().warnings;
    let warnings = warnings.into_iter();
    warnings.filter(|it| sent.is_new(it)).flatten().collect()
}

fn failed_warning(failed: &FailedRecovery) -> Vec<Message> {
    unrecovered_warning(failed.direction, &failed.error.to_string())
}

fn unrecovered_warning(direction: ApplyDirection, reason: &str) -> Vec<Message> {
    let what = attempt_name(direction);
    warning(format!("{what} could not be finished: {reason}"), [])
}

/// Says what is unfinished and what to do about it; nothing about an apply that makes progress.
fn unfinished_warning(services: &Services, apply: &UnfinishedApply) -> Option<Vec<Message>> {
    match (apply.worker, apply.state) {
        // Progress of another process is no reason for a warning.
        (ApplyWorker::Working, _) => None,
        (ApplyWorker::Silent(owner), _) => Some(silent_warning(services, apply, owner)),
        (ApplyWorker::Gone, ApplyState::Preparing) => {
            Some(interrupted_warning(&apply.plan, apply.direction))
        }
        (ApplyWorker::Gone, _) => {
            let what = attempt_name(apply.direction);
            let text = format!("{what} was interrupted: plan {}", apply.plan.name);
            let finish = finish_step(&apply.plan, apply.direction);
            Some(warning(text, [finish.with_condition("to finish it")]))
        }
    }
}

/// Returns what users call an attempt in this direction.
fn attempt_name(direction: ApplyDirection) -> &'static str {
    match direction {
        ApplyDirection::Apply => "an apply",
        ApplyDirection::Unapply => "an unapply",
    }
}

/// Returns the step that finishes an attempt whose process is gone.
fn finish_step(plan: &Plan, direction: ApplyDirection) -> NextStep {
    match direction {
        ApplyDirection::Apply => resume_step(plan.identity.plan_id),
        ApplyDirection::Unapply => unapply_step(plan.identity.plan_id),
    }
}

fn silent_warning(services: &Services, apply: &UnfinishedApply, owner: OwnerId) -> Vec<Message> {
    let deps = services.deps();
    let (name, id) = (&apply.plan.name, apply.plan.identity.plan_id);
    let verb = apply.direction.as_str();
    let pid = deps.liveness.process_id(owner);
    let Some((pid, command)) = pid.zip(deps.adapters.process_command(owner)) else {
        let text = format!("the {verb} of plan {name} does not respond");
        return warning(text, [status_step(id)]);
    };
    let text = format!(
        "the {verb} of plan {name} does not respond: process {pid} ({command}) hangs or is stopped"
    );
    let finish = finish_step(&apply.plan, apply.direction);
    let finish = finish.with_condition(&format!("after you ended process {pid}"));
    warning(text, [NextStep::from(format!("kill -CONT {pid}")), finish])
}

fn interrupted_warning(plan: &Plan, direction: ApplyDirection) -> Vec<Message> {
    let text = format!(
        "{} was interrupted before anything was changed: plan {}",
        attempt_name(direction),
        plan.name
    );
    let retry = match direction {
        ApplyDirection::Apply => apply_step(plan),
        ApplyDirection::Unapply => unapply_step(plan.identity.plan_id),
    };
    warning(text, [retry.with_condition("to try again")])
}

fn recovered_warning(recovered: &RecoveredApply) -> Vec<Message> {
    let RecoveredApply {
        plan,
        direction,
        outcome,
    } = recovered;
    match outcome {
        RecoveryOutcome::Finished => {
            let verb = direction.as_str();
            let text = format!("an interrupted {verb} was finished: plan {}", plan.name);
            warning(text, [])
        }
        RecoveryOutcome::Aborted => interrupted_warning(plan, *direction),
        RecoveryOutcome::Stopped => {
            let text = format!(
                "an interrupted {direction} cannot be finished: a target of plan {} was changed",
                plan.name
            );
            warning(text, [status_step(plan.identity.plan_id)])
        }
    }
}

//! Decides whether a sandbox is still needed.

use std::time::Duration;

use cleveragents_domain::sandbox::{FolderState, SandboxRecord, SandboxState};
use cleveragents_domain::{Plan, PlanState, Timestamp};

use super::gc::GcVerdict;
use cleveragents_ports::Holder;

/// Decides about a recorded sandbox. `runs` is the live owner of the plan's run.
pub(super) fn classify_sandbox(
    record: &SandboxRecord,
    plan: &Plan,
    runs: Option<&Holder>,
    now: Timestamp,
    older_than: Duration,
) -> GcVerdict {
    if let Some(holder) = runs {
        return GcVerdict::Keep(format!("its plan is run by {}", holder.owner));
    }
    match (record.folder, record.state) {
        (FolderState::Leaving, _) => return remove_verdict("its removal has started"),
        (FolderState::Gone, _) => return remove_verdict("it was removed before"),
        (FolderState::Kept, SandboxState::Discarded) => {
            return remove_verdict("its changes were discarded");
        }
        (FolderState::Kept, SandboxState::Creating) => {
            return remove_verdict("it was not created completely");
        }
        (FolderState::Kept, _) => {}
    }
    let state = plan.position.state();
    let reason = match state {
        PlanState::Applied => "its plan is applied",
        PlanState::Cancelled => "its plan is cancelled",
        _ => return GcVerdict::Keep(format!("its plan is at {}", plan.position)),
    };
    let captured = matches!(
        record.state,
        SandboxState::Captured | SandboxState::Applied | SandboxState::Discarded
    );
    if state == PlanState::Applied && !captured {
        return GcVerdict::Keep("its changes are not captured".to_owned());
    }
    let finished = plan.timestamps.finished_at.unwrap_or(now);
    if now.since(finished) < older_than {
        GcVerdict::Keep("its plan finished more recently than the given age".to_owned())
    } else {
        remove_verdict(reason)
    }
}

fn remove_verdict(why: &str) -> GcVerdict {
    GcVerdict::Remove(why.to_owned())
}

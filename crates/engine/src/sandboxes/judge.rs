//! Whether a sandbox is still needed.

use std::time::Duration;

use cleveragents_domain::sandbox::{FolderState, SandboxRecord, SandboxState};
use cleveragents_domain::{Plan, State, Timestamp};

use super::gc::Verdict;
use crate::ports::Holder;

/// Decides about a sandbox on record. `runs` is who is alive and has the plan's run.
pub(super) fn judge(
    record: &SandboxRecord,
    plan: &Plan,
    runs: Option<&Holder>,
    (now, older_than): (Timestamp, Duration),
) -> Verdict {
    if let Some(holder) = runs {
        return Verdict::Keep(format!("its plan is worked on by {}", holder.owner));
    }
    match (record.folder, record.state) {
        (FolderState::Leaving, _) => return remove("its removal was begun"),
        (FolderState::Gone, _) => return remove("it was removed before"),
        (FolderState::Kept, SandboxState::Discarded) => {
            return remove("its changes are not wanted");
        }
        (FolderState::Kept, SandboxState::Creating) => return remove("it was left half-made"),
        (FolderState::Kept, _) => {}
    }
    let state = plan.position.state();
    let reason = match state {
        State::Applied => "its plan is applied",
        State::Cancelled => "its plan is cancelled",
        _ => return Verdict::Keep(format!("its plan is at {}", plan.position)),
    };
    let captured = matches!(
        record.state,
        SandboxState::Captured | SandboxState::Applied | SandboxState::Discarded
    );
    if state == State::Applied && !captured {
        return Verdict::Keep("its changes are not captured".to_owned());
    }
    let finished = plan.timestamps.finished_at.unwrap_or(now);
    match now.since(finished) < older_than {
        true => Verdict::Keep("its plan was finished more recently than was asked for".to_owned()),
        false => remove(reason),
    }
}

fn remove(why: &str) -> Verdict {
    Verdict::Remove(why.to_owned())
}

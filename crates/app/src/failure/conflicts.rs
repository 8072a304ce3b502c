//! Failures of applies and rebases that met conflicts.

use cleveragents_api::NextStep;
use cleveragents_api::plan::{PlanConflict, PlanRebase};
use cleveragents_api::{ExitClass, FailureKind};
use cleveragents_domain::apply_record::Destination;
use cleveragents_domain::conflict::{Conflict, ConflictReason};
use cleveragents_domain::{BaseSource, Plan};

use super::RequestError;
use crate::next_steps::{apply_step, apply_to_files_step, cancel_step, mark_applied_step};

/// Returns the failure of a request that conflicts block.
pub fn apply_conflict_failure(plan: &Plan, conflicts: &[Conflict], what: &str) -> RequestError {
    let failure = RequestError::new(ExitClass::Conflict, what).kind(FailureKind::Conflicts);
    let listed: Vec<PlanConflict> = conflicts.iter().map(PlanConflict::from).collect();
    conflicts
        .iter()
        .fold(failure, |failure, it| failure.because(it.to_string()))
        .with_plan(plan)
        .with_facts(|facts| facts.conflicts = Some(listed))
}

/// Returns the failure for an apply with conflicts, with the possible next steps.
pub(crate) fn blocked_apply_failure(plan: &Plan, conflicts: &[Conflict]) -> RequestError {
    let id = plan.identity.plan_id;
    let failure = apply_conflict_failure(plan, conflicts, "cannot apply: conflicting files");
    let cancel = cancel_step(id);
    if is_sandbox_removed(conflicts) {
        return failure.hint(rebase(plan)).hint(cancel);
    }
    let failure = if can_write_files(plan, conflicts) {
        failure.hint(apply_to_files_step(id))
    } else if has_target_moved(conflicts) {
        failure.hint(rebase(plan))
    } else {
        failure
    };
    failure.hint(apply_step(plan)).hint(cancel)
}

/// Returns whether the plan began with uncommitted edits that its changes overlap: without them, its
/// changes do not fit the target's commit.
fn can_write_files(plan: &Plan, conflicts: &[Conflict]) -> bool {
    let overlaps = |it: &Conflict| {
        matches!(
            it.reason,
            ConflictReason::Merge { .. }
                | ConflictReason::Staged
                | ConflictReason::Validations { .. }
        )
    };
    plan.brief.base == BaseSource::Worktree
        && plan.destination != Some(Destination::Worktree)
        && conflicts.iter().any(overlaps)
}

/// Returns the failure of an apply that stopped after it wrote files. It can be cancelled only
/// while these are unchanged.
pub(crate) fn stopped_apply_failure(plan: &Plan, conflicts: &[Conflict]) -> RequestError {
    let id = plan.identity.plan_id;
    let what = "the target was changed meanwhile; files changed by others were not touched";
    let failure = apply_conflict_failure(plan, conflicts, what);
    let failure = if has_target_moved(conflicts) || is_sandbox_removed(conflicts) {
        failure.hint(rebase(plan))
    } else {
        failure
    };
    let failure = failure.hint(mark_applied_step(id));
    if conflicts.iter().any(|it| it.path.is_some()) {
        failure.hint("restore the files, then repeat the command")
    } else {
        failure.hint(cancel_step(id))
    }
}

fn rebase(plan: &Plan) -> NextStep {
    NextStep::send(&PlanRebase {
        plan: plan.identity.plan_id.into(),
    })
}

/// Returns whether the plan's sandbox was removed, so that only executing the plan again helps.
pub(crate) fn is_sandbox_removed(conflicts: &[Conflict]) -> bool {
    let is_removed = |it: &Conflict| it.reason == ConflictReason::SandboxRemoved;
    conflicts.iter().any(is_removed)
}

/// Returns whether the target has new commits, or the folder has changes, so that a rebase may
/// help.
fn has_target_moved(conflicts: &[Conflict]) -> bool {
    let is_move = |it: &Conflict| {
        matches!(
            it.reason,
            ConflictReason::Merge { .. }
                | ConflictReason::Edited
                | ConflictReason::Moved { .. }
                | ConflictReason::Validations { .. }
        )
    };
    conflicts.iter().any(is_move)
}

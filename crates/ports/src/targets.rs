//! The user's repositories and folders as targets of Apply.
//!
//! [`ApplyTargets::prepare`] computes the whole change of one resource from objects and returns an
//! [`ApplyIntent`], without touching anything the user sees. Once the intent is durable,
//! [`ApplyTargets::commit`] executes it, with a compare-and-swap per path. All calls block and are
//! idempotent (law 9): a call that was killed is finished by repeating it, in any process, from the
//! intent alone.
//!
//! Order for several resources: prepare all; if one is blocked, [`ApplyTargets::discard_prepared`]
//! the others; else decide, and from then on only [`ApplyTargets::commit`] until each returns
//! [`CommitOutcome::Done`].

use std::fmt::Debug;
use std::path::PathBuf;

use cleveragents_domain::id::{ApplyId, PlanId, SandboxId};
use cleveragents_domain::{AbsolutePath, ResourcePath, ResourceType};
use serde::{Deserialize, Serialize};

pub use super::rebase::{RebaseRequest, TargetRebase};
use super::sandbox::{CommitMetadata, SandboxError, TreeId};
pub use cleveragents_domain::apply_intent::{
    AppliedResult, ApplyEffect, ApplyIntent, CheckoutEffect, CommitEffect, ContentHash,
    FilesEffect, PatchDirection, PatchEffect, PathChange, PathState,
};
pub use cleveragents_domain::apply_record::{Author, Destination};
pub use cleveragents_domain::conflict::{Conflict, ConflictReason};

pub type TargetResult<T> = std::result::Result<T, TargetError>;

/// Applies results to their targets.
pub trait ApplyTargets: Send + Sync + Debug {
    /// Returns git's configured user there, for the author of a commit, or `None` if none is
    /// configured.
    fn author(&self, resource: &AbsolutePath) -> TargetResult<Option<Author>>;

    /// Merges the recorded base, the result and the current target, from objects only. In the
    /// user's repository only the object store and refs under `refs/cleveragents/` change. A
    /// repeated call computes everything again, unless a commit has started: then it returns the
    /// intent being committed.
    fn prepare(&self, request: &ApplyRequest) -> TargetResult<PrepareOutcome>;

    /// Prepares all of these, several in parallel. Returns after the last one, with the outcomes in
    /// the order of the requests.
    fn prepare_all(&self, requests: &[ApplyRequest]) -> Vec<TargetResult<PrepareOutcome>>;

    /// Executes an intent, or returns the conflicting changes. Never overwrites anything that
    /// differs from what the intent expects. Once done, a repeated call returns the same outcome,
    /// even if the user has changed the target since. Accepts only the intent of the last
    /// [`Self::prepare`].
    fn commit(&self, intent: &ApplyIntent) -> TargetResult<CommitOutcome>;

    /// Locks the targets of all these intents against other applies and the user's git, and checks
    /// everything again. The locks are held until the returned value is dropped, so that conflicts
    /// of one target are known before another is changed. Only lock files are written;
    /// [`Self::discard_prepared`] removes those left by a crash.
    fn lock(&self, intents: &[ApplyIntent]) -> TargetResult<LockOutcome>;

    /// Removes the data of [`Self::prepare`]. Fails once a commit has started, unless it stopped
    /// and nothing that it wrote is left.
    fn discard_prepared(&self, intent: &ApplyIntent) -> TargetResult<()>;

    /// Like [`Self::discard_prepared`], for a [`Self::prepare`] that was killed before its intent
    /// was stored. Succeeds if there is nothing to remove.
    fn discard_orphaned(&self, id: ApplyId, resource: &AbsolutePath) -> TargetResult<()>;

    /// Reverts what a stopped intent has written, path by path. Never overwrites later changes by
    /// others: such paths are returned, the others are reverted. Once everything is reverted,
    /// nothing is kept of the apply. A repeated call continues where it stopped. `missing_target`
    /// decides about a target that no longer exists.
    fn abort(
        &self,
        intent: &ApplyIntent,
        missing_target: MissingTargetPolicy,
    ) -> TargetResult<TargetAbortOutcome>;

    /// Merges a sandbox's result with the current target, from objects only, so that the sandbox
    /// can be moved onto it. In the user's repository only a ref under `refs/cleveragents/`
    /// changes, which keeps the new base.
    fn rebase(&self, request: &RebaseRequest) -> TargetResult<TargetRebase>;

    /// Returns every apply for which data is kept.
    fn list(&self) -> TargetResult<Vec<ApplyId>>;

    /// Removes all data kept for an apply that is done, or was abandoned after it stopped. It
    /// cannot be unapplied afterwards.
    fn forget(&self, id: ApplyId) -> TargetResult<()>;
}

/// Outcome of locking several targets.
#[derive(Debug)]
pub enum LockOutcome {
    Held(Box<dyn TargetLocks>),
    /// A target changed since it was prepared; nothing is locked.
    Blocked(Vec<Conflict>),
}

/// Several locked targets. Dropping it releases the locks.
pub trait TargetLocks: Send + Debug {
    /// Like [`ApplyTargets::commit`], under the locks. Releases the locks of this intent.
    fn commit(&mut self, intent: &ApplyIntent) -> TargetResult<CommitOutcome>;
}

/// A request to apply a change to one target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyRequest {
    pub id: ApplyId,
    pub plan: PlanId,
    pub resource: AbsolutePath,
    pub resource_type: ResourceType,
    pub change: RequestedChange,
    pub destination: Destination,
    /// Metadata of the commit, if one is made.
    pub commit: CommitMetadata,
}

impl ApplyRequest {
    /// Builds the request that reverses a finished apply, as a change of its own with the same
    /// guarantees.
    pub fn reverse(id: ApplyId, applied: &ApplyIntent, commit: CommitMetadata) -> Self {
        Self {
            id,
            plan: applied.plan,
            resource: applied.resource.clone(),
            resource_type: applied.resource_type,
            change: RequestedChange::Reverse(Box::new(applied.clone())),
            destination: applied.destination.clone(),
            commit,
        }
    }
}

/// The change to apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestedChange {
    /// The changes since `from` in this sandbox.
    Result {
        sandbox: SandboxId,
        from: TreeId,
        to: TreeId,
        /// The base commit of the sandbox. `None` for a folder, or before the first commit.
        base_commit: Option<String>,
    },
    /// The reverse of a finished apply. The sandbox may be gone.
    Reverse(Box<ApplyIntent>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrepareOutcome {
    Ready(Box<ApplyIntent>),
    /// The target already has all changes.
    Nothing,
    Blocked(Vec<Conflict>),
}

/// Outcome of executing an intent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommitOutcome {
    Done(AppliedResult),
    Stopped(StoppedCommit),
}

/// An abort's treatment of a target that no longer exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingTargetPolicy {
    /// It may come back: the abort stops.
    Stop,
    /// The user gives it up: what was written there is gone with it.
    Abandon,
}

/// Outcome of aborting an intent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetAbortOutcome {
    /// Nothing of it is left.
    RolledBack,
    /// It was completely done; it can only be reversed.
    Done(AppliedResult),
    /// These paths or places could not be reverted.
    Stopped(Vec<Conflict>),
}

/// Conflicting changes stopped the commit. A repeated call continues where it stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoppedCommit {
    pub conflicts: Vec<Conflict>,
    /// Paths written by this or an earlier call that are still in place.
    pub written: Vec<ResourcePath>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    // Refusals: the request cannot be fulfilled.
    #[error("`{name}` cannot be the name of a branch: {reason}")]
    BranchName { name: String, reason: String },
    #[error("a folder has no branches: use `--to current` or `--to patch FILE`")]
    NoBranches,
    #[error("{} cannot be written: {reason}", path.display())]
    PatchFile { path: PathBuf, reason: String },
    #[error("apply {id} has begun: it can only be finished")]
    AlreadyStarted { id: ApplyId },
    #[error("what apply {id} needs is no longer kept, so it can neither be finished nor reversed")]
    Forgotten { id: ApplyId },
    #[error("apply {id} was prepared anew since this intent was made: prepare it again")]
    Superseded { id: ApplyId },
    #[error("the intent of apply {id} has version {found}, which this program does not know")]
    Version { id: ApplyId, found: u32 },
    #[error(
        "the commit cannot be signed as `commit.gpgSign` asks: {reason}. Make signing work, or run `git config commit.gpgSign false` there"
    )]
    Signing { reason: String },

    // Temporary.
    #[error(
        "another git is at work: {} exists. Try again; if no git is running, remove that file",
        lock.display()
    )]
    Busy { lock: PathBuf },
    #[error("another process is at work there: it holds {}", lock.display())]
    Held { lock: PathBuf },

    /// Git errors, file errors and other errors of a sandbox.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
}

impl TargetError {
    /// Whether the same call may succeed later.
    pub fn is_temporary(&self) -> bool {
        matches!(
            self,
            Self::Busy { .. }
                | Self::Held { .. }
                | Self::Sandbox(
                    SandboxError::TimedOut { .. }
                        | SandboxError::Changing { .. }
                        | SandboxError::InUse { .. }
                )
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_names_its_path_or_folder() {
        let mut conflict = Conflict {
            path: Some(ResourcePath::from_bytes("a").unwrap()),
            place: Some(AbsolutePath::from_bytes("/home/a").unwrap()),
            reason: ConflictReason::Submodule,
        };
        assert!(conflict.to_string().starts_with("a: it is a submodule"));
        conflict.path = None;
        assert!(conflict.to_string().starts_with("/home/a: it is"));
        conflict.place = None;
        assert!(conflict.to_string().starts_with("it is a submodule"));
    }
}

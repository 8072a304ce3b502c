//! Bringing a plan's result home: the user's repositories and folders as targets of Apply.
//!
//! An apply of one resource is prepared, then carried out. [`ApplyTargets::prepare`] works out the whole
//! change from objects and answers with an [`ApplyIntent`], touching nothing people look at. Once
//! that intent is durable elsewhere, [`ApplyTargets::commit`] makes it true, path by path and each
//! path by compare-and-swap. Everything blocks and may be asked twice (law 9): a call that was
//! killed half-way is finished by making it again, in whatever process, from the intent alone.
//!
//! The order for several resources: prepare all; if one is blocked, [`ApplyTargets::discard_prepared`] the
//! others; else decide, and from then on only [`ApplyTargets::commit`] until each answers
//! [`CommitOutcome::Done`].

use std::fmt::{self, Debug};
use std::path::PathBuf;

use cleveragents_domain::id::{ApplyId, PlanId, SandboxId};
use cleveragents_domain::{AbsolutePath, ResourcePath, ResourceType};
use serde::{Deserialize, Serialize};

pub use super::rebase::{RebaseRequest, TargetRebase};
use super::sandbox::{CommitMetadata, ObjectFormat, SandboxError, TreeId};

pub type TargetResult<T> = std::result::Result<T, TargetError>;

/// Where results go.
pub trait ApplyTargets: Send + Sync + Debug {
    /// Who the user is to git there, for the author of a commit; nothing where nobody said so.
    fn author(&self, resource: &AbsolutePath) -> TargetResult<Option<Author>>;

    /// Merges the recorded base, the result and the target as it stands, from objects only. Of the
    /// user's nothing changes but the object store and refs under `refs/cleveragents/`. Asked again
    /// it works everything out anew, unless carrying out has begun: then the answer is the intent
    /// that is being carried out.
    fn prepare(&self, request: &ApplyRequest) -> TargetResult<PrepareOutcome>;

    /// Prepares all of these, several at the same time. Returns after the last one, with an answer
    /// for each in their order.
    fn prepare_all(&self, requests: &[ApplyRequest]) -> Vec<TargetResult<PrepareOutcome>>;

    /// Makes an intent true, or says whose change stands in the way. Nothing that differs from what
    /// the intent expects is overwritten. Once done it stays done: asked again it answers the same,
    /// whatever the user did to the target since. Only the intent of the last [`Self::prepare`]
    /// is taken.
    fn commit(&self, intent: &ApplyIntent) -> TargetResult<CommitOutcome>;

    /// Locks the targets of all these intents against other applies and the user's git, and looks
    /// at everything once more. Held until the answer is dropped, so that what stands in the way of
    /// one is known before anything of another is changed. Nothing of the user's changes but lock
    /// files; [`Self::discard_prepared`] removes those that a kill left.
    fn lock(&self, intents: &[ApplyIntent]) -> TargetResult<LockOutcome>;

    /// Removes what [`Self::prepare`] left. Refused once carrying out has begun, unless it stopped
    /// and nothing it wrote stands.
    fn discard_prepared(&self, intent: &ApplyIntent) -> TargetResult<()>;

    /// As [`Self::discard_prepared`], for a [`Self::prepare`] that was killed before anybody had its
    /// intent. One that left nothing is as wanted.
    fn discard_orphaned(&self, id: ApplyId, resource: &AbsolutePath) -> TargetResult<()>;

    /// Takes back what an intent that stopped has written, path by path. What somebody else
    /// changed since is never overwritten: such paths are listed, the others are taken back. Once
    /// all is taken back nothing is kept of the apply. Asking again goes on where it stopped.
    /// `if_gone` decides about a target that no longer exists.
    fn abort(
        &self,
        intent: &ApplyIntent,
        missing_target: MissingTargetPolicy,
    ) -> TargetResult<TargetAbortOutcome>;

    /// Merges a sandbox's result with the target as it is now, from objects only, so that the
    /// sandbox can be moved onto it. Of the user's nothing changes but a ref under
    /// `refs/cleveragents/`, which keeps the new base.
    fn rebase(&self, request: &RebaseRequest) -> TargetResult<TargetRebase>;

    /// Every apply of which something is kept.
    fn list(&self) -> TargetResult<Vec<ApplyId>>;

    /// Removes all that is kept for an apply that is done, or given up after it stopped. From then
    /// on it cannot be reversed.
    fn forget(&self, id: ApplyId) -> TargetResult<()>;
}

/// What became of locking several targets.
#[derive(Debug)]
pub enum LockOutcome {
    Held(Box<dyn TargetLocks>),
    /// Something changed since they were prepared; nothing is locked.
    Blocked(Vec<Conflict>),
}

/// Several targets that are locked. Dropping it releases them.
pub trait TargetLocks: Send + Debug {
    /// As [`ApplyTargets::commit`], under the locks; those of this intent are released with the
    /// answer.
    fn commit(&mut self, intent: &ApplyIntent) -> TargetResult<CommitOutcome>;
}

/// A person as git knows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    pub name: String,
    pub email: String,
}

/// What is to be brought home, and where to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyRequest {
    pub id: ApplyId,
    pub plan: PlanId,
    pub resource: AbsolutePath,
    pub resource_type: ResourceType,
    pub change: RequestedChange,
    pub destination: Destination,
    /// Of the commit, where one is made.
    pub commit: CommitMetadata,
}

impl ApplyRequest {
    /// Takes an apply that was carried out back again, as a change of its own with the same
    /// safety.
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

/// The change itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestedChange {
    /// What became of `from` in this sandbox.
    Result {
        sandbox: SandboxId,
        from: TreeId,
        to: TreeId,
        /// The commit the sandbox began with; none of a folder or before the first commit.
        base_commit: Option<String>,
    },
    /// The opposite of an apply that was carried out. The sandbox may be gone by now.
    Reverse(Box<ApplyIntent>),
}

/// Where a result goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Destination {
    /// One commit on what is checked out, with its files and index; of a folder, its files.
    Current,
    /// One commit on the branch of this short name, which is made if it is not there. Files change
    /// only where it is checked out.
    Branch(String),
    /// The files, and nothing else.
    Worktree,
    /// A new file with a patch of the result against its base.
    Patch(AbsolutePath),
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrepareOutcome {
    Ready(Box<ApplyIntent>),
    /// The target has all of it already.
    Nothing,
    Blocked(Vec<Conflict>),
}

/// Everything that is needed to carry out an apply, or to finish one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyIntent {
    pub version: u32,
    pub id: ApplyId,
    pub plan: PlanId,
    pub resource: AbsolutePath,
    pub resource_type: ResourceType,
    pub destination: Destination,
    /// In order of paths.
    pub changes: Vec<PathChange>,
    pub effect: ApplyEffect,
    pub commit: CommitMetadata,
}

impl ApplyIntent {
    /// The form written today.
    pub const VERSION: u32 = 1;
}

/// One path and what becomes of it; nothing stands for no file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathChange {
    pub path: ResourcePath,
    pub old: Option<PathState>,
    pub new: Option<PathState>,
}

/// How a path stands, in the object store and on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathState {
    /// As git writes it.
    pub mode: u32,
    pub object: String,
    /// Of the bytes on disk, or of where a link points: BLAKE3. Absent where no file is written.
    pub content: Option<ContentHash>,
}

/// What tells one content from another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentHash {
    pub hash: String,
    pub size: u64,
}

/// What carrying out changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApplyEffect {
    /// A commit, and the files and indexes of every place that has its branch checked out.
    Commit(CommitEffect),
    /// Files below one folder.
    Files(FilesEffect),
    /// One new file.
    Patch(PatchEffect),
}

/// A branch (or a detached `HEAD`) goes from one commit to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitEffect {
    /// Its full name; none of a detached `HEAD`.
    pub reference: Option<String>,
    /// None of a branch that has no commit yet, or that is not there yet.
    pub old: Option<String>,
    pub new: String,
    pub old_tree: String,
    pub new_tree: String,
    pub object_format: ObjectFormat,
    /// Every working tree that has it checked out.
    pub checkouts: Vec<CheckoutEffect>,
}

/// One working tree and its index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckoutEffect {
    pub root: AbsolutePath,
    pub git_dir: AbsolutePath,
    /// Changed paths a sparse checkout leaves out: their entries change, no file does.
    pub sparse: Vec<ResourcePath>,
}

/// Files below one folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesEffect {
    pub root: AbsolutePath,
    /// Empty folders that appear, and that go if they are still empty.
    pub made: Vec<ResourcePath>,
    pub removed: Vec<ResourcePath>,
}

/// A file that appears, or, reversed, goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatchEffect {
    pub file: AbsolutePath,
    pub content: ContentHash,
    pub direction: PatchDirection,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PatchDirection {
    Write,
    Remove,
}

/// What became of an intent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommitOutcome {
    Done(AppliedResult),
    Stopped(StoppedCommit),
}

/// How an abort handles a target that no longer exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingTargetPolicy {
    /// It may come back: the abort stops.
    Stop,
    /// The user gives it up: what was written there went with it.
    Abandon,
}

/// What became of aborting an intent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetAbortOutcome {
    /// Nothing of it stands.
    RolledBack,
    /// All of it had been done; it can only be reversed.
    Done(AppliedResult),
    /// These paths or places could not be taken back.
    Stopped(Vec<Conflict>),
}

/// Where the result is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedResult {
    /// The commit that was made, or that somebody made of the very same files meanwhile.
    pub commit: Option<String>,
    /// The full name of its branch.
    pub reference: Option<String>,
    /// The patch that was written.
    pub file: Option<AbsolutePath>,
}

/// Somebody else's change stands in the way. Asking again goes on where it stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoppedCommit {
    pub conflicts: Vec<Conflict>,
    /// What was written before, this time or earlier, and still stands.
    pub written: Vec<ResourcePath>,
}

/// One thing that stands in the way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Conflict {
    /// None where it is not about one path.
    pub path: Option<ResourcePath>,
    /// The working tree or folder it is in; none where it is in no folder.
    pub place: Option<AbsolutePath>,
    pub reason: ConflictReason,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.path, &self.place) {
            (Some(path), _) => write!(f, "{path}: {}", self.reason),
            (None, Some(place)) => write!(f, "{place}: {}", self.reason),
            (None, None) => write!(f, "{}", self.reason),
        }
    }
}

/// Why something stands in the way.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, thiserror::Error,
)]
#[serde(rename_all = "snake_case")]
pub enum ConflictReason {
    #[error("both the plan and the target changed it ({kind})")]
    Merge {
        /// Git's word for it, such as `contents`.
        kind: String,
    },
    #[error("it has uncommitted changes: commit, stash or undo them first")]
    Changed,
    #[error("it is staged with other content: commit or unstage it first")]
    Staged,
    #[error("it is in an unfinished merge: finish that first")]
    Unmerged,
    #[error("an untracked file is in its place: move it away first")]
    Untracked,
    #[error("it was changed since the plan began")]
    Edited,
    #[error("it lies behind a link, which is never followed")]
    BehindLink,
    #[error("it has the attribute `filter={name}`, and filters are not run")]
    Filtered { name: String },
    #[error("it is a submodule: plans can remove it, and change nothing else of it")]
    Submodule,
    #[error(
        "the folder of this submodule has files, which are never removed: apply with `--to current` or `--to branch`, or empty the folder first"
    )]
    SubmoduleFiles,
    #[error("the plan wrote {mask} into it, which stands for a secret: write the file again")]
    Mask { mask: String },
    #[error("a {operation} is in progress: finish or abort it first")]
    InProgress { operation: String },
    #[error("`{reference}` moved from {expected} to {found} meanwhile")]
    Moved {
        reference: String,
        expected: String,
        found: String,
    },
    #[error("`{reference}` is no longer checked out here")]
    SwitchedAway { reference: String },
    #[error("`{reference}` was checked out here meanwhile")]
    CheckedOut { reference: String },
    #[error("the working tree is not there: mount it, or run `git worktree prune`")]
    Missing,
    #[error("another file is there already: remove it or name another")]
    Exists,
    #[error("what was there in the last moment is kept as {kept}")]
    KeptAside { kept: String },
    #[error("it was reset or unlocked after an interruption: apply the plan again to go on")]
    Undone,
    #[error("it is not there any more: put it back, then apply the plan again")]
    Gone,
    #[error("the plan's sandbox of it was removed")]
    SandboxRemoved,
    #[error("required validations fail on the merge with what it has now: {reason}")]
    Validations { reason: String },
    #[error("it has moved, and validations have to run again on the merge: apply the plan again")]
    Unvalidated,
    #[error("it could not be changed: {reason}")]
    Failed { reason: String },
}

impl ConflictReason {
    /// Whether asking again at once cannot help: somebody has to do something first.
    pub fn is_final(&self) -> bool {
        matches!(
            self,
            Self::Undone
                | Self::Gone
                | Self::SandboxRemoved
                | Self::Validations { .. }
                | Self::Unvalidated
                | Self::Failed { .. }
        )
    }
}

/// Everything a target may answer instead of a result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    // Refusals: what was asked for cannot be had.
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

    /// Git, files, and what else a sandbox may answer.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
}

impl TargetError {
    /// Whether the same call may go well a moment later.
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
    fn an_intent_reads_back_as_it_was_written() {
        let path = |text: &str| AbsolutePath::from_bytes(text).unwrap();
        let state = |object: &str| PathState {
            mode: 0o100_644,
            object: object.repeat(20),
            content: Some(ContentHash {
                hash: "c3".repeat(32),
                size: 3,
            }),
        };
        let mut intent = ApplyIntent {
            version: ApplyIntent::VERSION,
            id: "01JZZZZZZZ0000000000ABCDEF".parse().unwrap(),
            plan: "01JZZZZZZZ0000000000ABCDEF".parse().unwrap(),
            resource: path("/home/a\u{1}b"),
            resource_type: ResourceType::GitCheckout,
            destination: Destination::Branch("topic".into()),
            changes: vec![PathChange {
                path: ResourcePath::from_bytes(&b"a\xff"[..]).unwrap(),
                old: Some(state("a1")),
                new: None,
            }],
            effect: ApplyEffect::Commit(CommitEffect {
                reference: Some("refs/heads/topic".into()),
                old: None,
                new: "a1".repeat(20),
                old_tree: "b2".repeat(20),
                new_tree: "c3".repeat(20),
                object_format: ObjectFormat::Sha1,
                checkouts: vec![CheckoutEffect {
                    root: path("/home/a"),
                    git_dir: path("/home/a/.git"),
                    sparse: Vec::new(),
                }],
            }),
            commit: CommitMetadata {
                name: "A".into(),
                email: "a@localhost".into(),
                seconds: 7,
                message: "m".into(),
            },
        };
        let patch = ApplyEffect::Patch(PatchEffect {
            file: path("/tmp/p"),
            content: ContentHash {
                hash: "c3".repeat(32),
                size: 3,
            },
            direction: PatchDirection::Write,
        });
        let files = ApplyEffect::Files(FilesEffect {
            root: path("/home/a"),
            made: Vec::new(),
            removed: Vec::new(),
        });
        for effect in [intent.effect.clone(), patch, files] {
            intent.effect = effect;
            let json = serde_json::to_string(&intent).unwrap();
            assert_eq!(serde_json::from_str::<ApplyIntent>(&json).unwrap(), intent);
        }
    }

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

//! Sandboxes: private trees in which a plan works, separate from the user's files.
//!
//! A sandbox is a copy of one resource for one plan. [`Sandboxes`] creates, opens and discards
//! them. A [`Sandbox`] is the handle of one, so no call can reach another (law 4). All calls block,
//! so callers must use threads that may. All calls are idempotent (law 9): a call that was killed
//! is finished by repeating it.

use std::fmt::{self, Debug};
use std::path::{Path, PathBuf};

pub use cleveragents_domain::apply_intent::{CommitMetadata, ObjectFormat};
use cleveragents_domain::id::{PlanId, SandboxId};
pub use cleveragents_domain::tree::TreeId;
use cleveragents_domain::tree::TreeIdError;
pub use cleveragents_domain::uncommitted::{UncommittedFile, UncommittedKind};
use cleveragents_domain::{
    AbsolutePath, BaseSource, FileOperation, FileState, ResourcePath, ResourceType,
};
use serde::{Deserialize, Serialize};

use super::limits::OverLimit;
use super::stop::{StopReason, StopSignal};

pub type SandboxResult<T> = std::result::Result<T, SandboxError>;

/// All sandboxes of one data directory.
pub trait Sandboxes: Send + Sync + Debug {
    /// Inspects a user's repository without changing it.
    fn inspect(&self, path: &Path) -> SandboxResult<Inspection>;

    /// Checks that a sandbox can be created from this resource, without changing it.
    fn check_usable(&self, path: &AbsolutePath, kind: ResourceType) -> SandboxResult<()>;

    /// Creates the sandbox, or returns the existing one. Remains of a killed call are removed
    /// first.
    fn create(&self, new: &NewSandbox) -> SandboxResult<CreatedSandbox>;

    /// Opens a completely created sandbox.
    fn open(&self, id: SandboxId) -> SandboxResult<Box<dyn Sandbox>>;

    /// Sets the base of the sandbox. The base's commit must be in the user's repository, and its
    /// tree must be visible to the sandbox. The files change only with [`Sandbox::restore`].
    /// Handles opened before keep the old base.
    fn set_base(&self, id: SandboxId, base: &SandboxBase) -> SandboxResult<()>;

    /// Removes the sandbox and the pin of its base. Removes only a folder inside our root whose
    /// marker holds this id.
    fn discard(&self, id: SandboxId) -> SandboxResult<DiscardOutcome>;

    /// Returns every sandbox, including partly created ones.
    fn list(&self) -> SandboxResult<Vec<SandboxId>>;

    /// Returns the marker in the folder of a sandbox, or `None` if there is no folder or no marker
    /// yet.
    fn read_marker(&self, id: SandboxId) -> SandboxResult<Option<SandboxMarker>>;

    /// Returns the commit that [`Sandbox::publish`] put into the repository at `path`, if it is
    /// still there.
    fn find_published(
        &self,
        path: &AbsolutePath,
        plan: PlanId,
    ) -> SandboxResult<Option<PublishedCommit>>;

    /// Removes what [`Sandbox::publish`] put into the repository at `path`.
    fn withdraw(&self, path: &AbsolutePath, plan: PlanId) -> SandboxResult<()>;
}

/// One sandbox. Capture and restore of one sandbox exclude each other, also across processes.
pub trait Sandbox: Send + Sync + Debug {
    fn id(&self) -> SandboxId;

    /// The only folder that a tool may write.
    fn tree(&self) -> &Path;

    /// Returns the first `limit` bytes of a file of the tree, or `None` if there is no regular file
    /// at the path. Follows no links.
    fn read(&self, path: &ResourcePath, limit: usize) -> SandboxResult<Option<Vec<u8>>>;

    /// Returns the paths directly in a folder of the tree; empty if there is no such folder.
    /// Follows no links.
    fn entries(&self, folder: &ResourcePath) -> SandboxResult<Vec<ResourcePath>>;

    /// Returns a private folder outside the tree, for the home and the temporary files of commands.
    fn scratch(&self) -> SandboxResult<PathBuf>;

    /// The base tree of the sandbox.
    fn base(&self) -> &TreeId;

    /// Records the current tree and its changes since `previous`. Fails with
    /// [`SandboxError::Stopped`] soon after the stop signal, and with [`SandboxError::OverLimit`]
    /// if there is more than one capture may record; nothing is recorded then.
    fn capture(
        &mut self,
        previous: &TreeId,
        touched: &TouchedPaths,
        stop: &StopSignal,
    ) -> SandboxResult<Capture>;

    /// Restores the tree to exactly `tree`; ignored files are kept where they fit. Fails with
    /// [`SandboxError::Stopped`] soon after the stop signal; the restore must be repeated then.
    fn restore(&mut self, tree: &TreeId, stop: &StopSignal) -> SandboxResult<()>;

    /// Returns the difference of two captured trees, of all paths or only of `paths`. Fails with
    /// [`SandboxError::Stopped`] soon after the stop signal.
    fn diff(
        &self,
        from: &TreeId,
        to: &TreeId,
        paths: &[ResourcePath],
        stop: &StopSignal,
    ) -> SandboxResult<TreeDiff>;

    /// Returns the net change of each path between two captured trees, ordered by path. A moved
    /// file counts as deleted and created. Fails with [`SandboxError::Stopped`] soon after the stop
    /// signal.
    fn net_changes(
        &self,
        from: &TreeId,
        to: &TreeId,
        stop: &StopSignal,
    ) -> SandboxResult<Vec<NetChange>>;

    /// Returns the paths at which no new content can be recorded, because git runs a filter on them
    /// that the user does not allow. Their removal can be recorded.
    fn filtered_paths(&self, paths: &[ResourcePath]) -> SandboxResult<Vec<ResourcePath>>;

    /// Returns which of these paths are files of a captured tree.
    fn files_in_tree(
        &self,
        tree: &TreeId,
        paths: &[ResourcePath],
    ) -> SandboxResult<Vec<ResourcePath>>;

    /// Returns `tree` without this part of its difference to `base`. The files change only with
    /// [`Sandbox::restore`].
    fn tree_without(&self, base: &TreeId, tree: &TreeId, part: &DiffPart) -> SandboxResult<TreeId>;

    /// Returns the history of the base, newest first, of all paths or of one, at most `limit`
    /// commits. A folder has none.
    fn log(&self, path: Option<&ResourcePath>, limit: u32) -> SandboxResult<Vec<LogEntry>>;

    /// Writes `tree` as a commit into the user's repository under `refs/cleveragents/`, with
    /// everything it needs to outlive the sandbox. Fails with [`SandboxError::Stopped`] soon after
    /// the stop signal, unless the transfer of the commit has already started.
    fn publish(
        &self,
        tree: &TreeId,
        commit: &CommitMetadata,
        stop: &StopSignal,
    ) -> SandboxResult<PublishedCommit>;
}

/// A request to create a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSandbox {
    pub id: SandboxId,
    pub plan: PlanId,
    pub resource: AbsolutePath,
    pub resource_type: ResourceType,
    pub base: BaseSource,
    /// BLAKE3 hashes of `.worktreeinclude` contents that the user consented to. Credential files
    /// named by these contents are copied; those named by any other content are left out.
    pub trusted_includes: Vec<String>,
}

/// The file of a resource that names ignored files to copy into the sandbox.
pub const WORKTREE_INCLUDE: &str = ".worktreeinclude";

/// The marker file in the folder of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxMarker {
    pub plan: PlanId,
    pub resource: AbsolutePath,
    pub resource_type: ResourceType,
}

/// A sandbox that is ready for work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedSandbox {
    pub tree: PathBuf,
    pub base: TreeId,
    /// The base commit. `None` for a folder, or before the first commit.
    pub base_commit: Option<String>,
    pub warnings: Vec<Warning>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxBase {
    pub tree: TreeId,
    /// The base commit. `None` for a folder, or before the first commit.
    pub commit: Option<String>,
}

/// A warning to the user before work starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Warning {
    /// These files have changes that are not in the sandbox.
    Uncommitted(Vec<ResourcePath>),
    /// Files of these submodules are not in the sandbox; their recorded commits stay unchanged.
    Submodules(Vec<ResourcePath>),
    /// Files with a `filter` attribute are in the sandbox as git stores them. Changes to them are
    /// refused.
    Filtered(Vec<ResourcePath>),
    /// The user's checkout is sparse; the sandbox has every file of the commit.
    Sparse,
    /// The history is truncated.
    Shallow,
    /// Paths that could not be copied.
    Omitted(Vec<OmittedPath>),
    /// Credential files that `.worktreeinclude` names without the user's consent.
    Credentials(Vec<ResourcePath>),
}

/// Maximum number of paths that a warning lists; the rest is counted.
const SHOWN_PATHS_MAXIMUM: usize = 5;

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uncommitted(paths) => write!(
                f,
                "not committed, and so not in the sandbox: {}",
                list_paths(paths)
            ),
            Self::Submodules(paths) => write!(
                f,
                "files of submodules are not in the sandbox: {}",
                list_paths(paths)
            ),
            Self::Filtered(paths) => write!(
                f,
                "files with a filter are as git stores them, and changes of them are refused: {}",
                list_paths(paths)
            ),
            Self::Sparse => {
                f.write_str("the checkout is sparse, and the sandbox has every file of the commit")
            }
            Self::Shallow => f.write_str("history is not complete: the repository is shallow"),
            Self::Omitted(all) => {
                let paths: Vec<&ResourcePath> = all.iter().map(|it| &it.path).collect();
                write!(f, "not copied: {}", list_paths(paths))
            }
            Self::Credentials(paths) => write!(
                f,
                "credential files that {WORKTREE_INCLUDE} names are not in the sandbox (--trust \
                 includes them): {}",
                list_paths(paths)
            ),
        }
    }
}

/// Returns the first few paths as text.
fn list_paths<'a>(paths: impl IntoIterator<Item = &'a ResourcePath>) -> String {
    let paths: Vec<String> = paths.into_iter().map(ToString::to_string).collect();
    let shown = paths
        .iter()
        .take(SHOWN_PATHS_MAXIMUM)
        .cloned()
        .collect::<Vec<_>>();
    match paths.len().saturating_sub(SHOWN_PATHS_MAXIMUM) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Whether there was something to discard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiscardOutcome {
    Removed,
    Absent,
}

/// Paths that may have changed since the previous capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TouchedPaths {
    /// Only these paths; a folder includes everything in it.
    Paths(Vec<ResourcePath>),
    /// Any path.
    Unknown,
}

/// A captured tree with its changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capture {
    pub tree: TreeId,
    /// Changes since the previous tree, ordered by path.
    pub changes: Vec<FileChange>,
    /// Paths that were inspected but are not in the tree.
    pub omitted: Vec<OmittedPath>,
}

/// One change of one path. Hashes are of the bytes in the tree, as tools read them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    pub path: ResourcePath,
    pub operation: FileOperation,
    pub before: Option<FileState>,
    pub after: Option<FileState>,
}

/// The net change of one path between two trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetChange {
    pub path: ResourcePath,
    /// `None` if the path is new.
    pub before: Option<FileState>,
    /// `None` if the path is gone.
    pub after: Option<FileState>,
    pub lines: DiffLines,
}

/// A part of the difference of two trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiffPart {
    /// All changes of these paths.
    Paths(Vec<ResourcePath>),
    /// The changes of this patch, which must apply to the later tree.
    Patch(Vec<u8>),
}

/// A path in a tree that is not captured.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OmittedPath {
    pub path: ResourcePath,
    pub why: OmissionReason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OmissionReason {
    /// A `.git` below the root; the files beside it are captured.
    NestedRepository,
    Socket,
    Device,
    Fifo,
    /// Git cannot store a file of this name.
    Name,
    /// Folders are nested more than 200 deep.
    TooDeep,
    /// The file is not readable; its previously captured content is kept.
    Unreadable,
    /// The file has a `filter` attribute; its previously captured content is kept.
    Filtered,
    /// The file is in a submodule, whose recorded commit stays unchanged.
    Submodule,
    /// A `.gitmodules` that git refuses, because its URL or path could run a command; the
    /// previously captured content is kept.
    Modules,
}

impl OmissionReason {
    /// Returns the error message for the author of a refused change, or `None` if the path is only
    /// left out.
    pub fn refusal_message(self, paths: &[ResourcePath]) -> Option<String> {
        let why = match self {
            Self::Filtered => {
                "Git runs a filter on these files, so plans cannot change them unless the user \
                 allows the filter (setting `sandbox.allow-filters`)."
            }
            Self::Submodule => "Plans cannot change files inside submodules.",
            Self::Name => "Git, or git on another file system, treats these names as its own.",
            Self::Modules => "Git refuses a URL or path in this file, as it could run a command.",
            Self::Unreadable => "Their permissions do not allow to read them: use `chmod u+r`.",
            Self::TooDeep => "Folders may be nested 200 deep.",
            Self::NestedRepository | Self::Socket | Self::Device | Self::Fifo => return None,
        };
        let paths: Vec<String> = paths.iter().map(ToString::to_string).collect();
        Some(format!("Refused: {}. {why}", paths.join(", ")))
    }
}

/// A patch that `git apply` accepts, with its statistics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeDiff {
    pub patch: Vec<u8>,
    pub files: Vec<DiffStat>,
}

/// The statistics of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffStat {
    pub path: ResourcePath,
    pub renamed_from: Option<ResourcePath>,
    pub change: DiffChange,
    pub lines: DiffLines,
}

/// The change of a path between two trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffChange {
    Added,
    Deleted,
    /// Content or mode differ.
    Modified,
    /// Moved from `renamed_from`; the content may differ too.
    Renamed,
    /// A file became a link, or the reverse.
    Retyped,
}

/// One commit of the base's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// The abbreviated commit id.
    pub id: String,
    pub author: String,
    /// Author time in seconds since 1970, UTC.
    pub seconds: i64,
    /// The first line of its message.
    pub subject: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffLines {
    Text { inserted: u64, deleted: u64 },
    Binary,
}

/// Location of a published tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedCommit {
    pub reference: String,
    pub commit: String,
}

/// Properties of a user's repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    pub checkout: Checkout,
    pub git_dir: PathBuf,
    /// The folder with refs and objects; differs from `git_dir` in a linked worktree.
    pub common_dir: PathBuf,
    pub object_format: ObjectFormat,
    pub head: RepositoryHead,
    pub history: HistoryCompleteness,
    /// Whether all objects are present locally, or some would have to be fetched.
    pub objects: ObjectCompleteness,
    pub coverage: CheckoutCoverage,
    pub submodules: Vec<ResourcePath>,
    /// Tracked paths with a `filter` attribute.
    pub filtered: Vec<ResourcePath>,
    pub uncommitted: Vec<UncommittedFile>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checkout {
    /// The folder of the checked-out files.
    At(PathBuf),
    /// A repository without a working tree; plans cannot work on it.
    Bare,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepositoryHead {
    /// On a branch (full name) at a commit.
    Branch {
        reference: String,
        commit: String,
    },
    Detached {
        commit: String,
    },
    /// On a branch that has no commit yet.
    Unborn {
        reference: String,
    },
}

impl RepositoryHead {
    pub fn commit(&self) -> Option<&str> {
        match self {
            Self::Branch { commit, .. } | Self::Detached { commit } => Some(commit),
            Self::Unborn { .. } => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryCompleteness {
    Complete,
    Shallow,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectCompleteness {
    Complete,
    /// A partial clone: a promisor remote has the rest.
    Partial,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckoutCoverage {
    Complete,
    Sparse,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SandboxError {
    // Refusals: the request cannot be fulfilled here.
    #[error("{} is not a git repository", path.display())]
    NotARepository { path: PathBuf },
    #[error("git refuses {}: {reason}", path.display())]
    Refused { path: PathBuf, reason: String },
    #[error("{} is a bare repository: it has no files to work on", path.display())]
    Bare { path: PathBuf },
    #[error("{} lies inside the repository {}: name that folder", path.display(), top_level.display())]
    NotTopLevel { path: PathBuf, top_level: PathBuf },
    #[error(
        "{} is a partial clone and lacks {count} objects of {commit}: run `git fetch --refetch --no-filter` there",
        path.display()
    )]
    MissingObjects {
        path: PathBuf,
        commit: String,
        count: usize,
    },
    #[error("{} is not a folder", path.display())]
    NotAFolder { path: PathBuf },
    #[error("a sandbox of a folder has no repository to publish to")]
    NoRepository,
    #[error("sandbox {id} does not exist or was not completely made")]
    NotFound { id: SandboxId },
    #[error("{} was not touched: {reason}", path.display())]
    Foreign { path: PathBuf, reason: String },

    // The user must act first.
    #[error("the git program `{}` cannot be started: {reason}", program.display())]
    NoGit { program: PathBuf, reason: String },
    #[error("git {found} is too old: {needed} or newer is needed")]
    GitTooOld { found: String, needed: String },

    #[error("{0}")]
    OverLimit(OverLimit),

    // Temporary.
    #[error("{0}")]
    Stopped(StopReason),
    #[error("`{command}` took longer than {seconds} s and was stopped")]
    TimedOut { command: String, seconds: u64 },
    #[error("{path} changed while it was being read")]
    Changing { path: ResourcePath },
    #[error("{holder} is writing there and has {} locked: try again", path.display())]
    InUse { path: PathBuf, holder: String },

    #[error("`{command}` failed ({status}): {stderr}")]
    Git {
        command: String,
        status: String,
        stderr: String,
    },
    #[error("`{command}` answered more than {limit} bytes")]
    TooMuchOutput { command: String, limit: usize },
    #[error("{}: {reason}", path.display())]
    Io { path: PathBuf, reason: String },
    #[error("{what}")]
    Malformed { what: String },
}

impl From<TreeIdError> for SandboxError {
    fn from(error: TreeIdError) -> Self {
        Self::Malformed {
            what: error.to_string(),
        }
    }
}

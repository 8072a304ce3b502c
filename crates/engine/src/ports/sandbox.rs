//! Private trees: where a plan works before anything of the user's is touched.
//!
//! A sandbox is a copy of one resource made for one plan. [`Sandboxes`] makes, opens and discards
//! them; a [`Sandbox`] is the handle of one, so no call can land in another's (law 4). All of it
//! blocks: callers give it threads that may. Everything may be asked twice (law 9): a call that
//! was killed half-way is finished by making it again.

use std::fmt::{self, Debug};
use std::path::{Path, PathBuf};

use cleveragents_domain::id::{PlanId, SandboxId};
pub use cleveragents_domain::tree::TreeId;
use cleveragents_domain::tree::TreeIdError;
use cleveragents_domain::{
    AbsolutePath, BaseSource, FileOperation, FileState, ResourcePath, ResourceType,
};
use serde::{Deserialize, Serialize};

use super::limits::OverLimit;
use super::stop::{StopReason, StopSignal};

pub type SandboxResult<T> = std::result::Result<T, SandboxError>;

/// All sandboxes of one data directory.
pub trait Sandboxes: Send + Sync + Debug {
    /// What a user's repository is like, touching nothing of it.
    fn inspect(&self, path: &Path) -> SandboxResult<Inspection>;

    /// Whether a sandbox can be made of this resource, touching nothing of it.
    fn check_usable(&self, path: &AbsolutePath, kind: ResourceType) -> SandboxResult<()>;

    /// Makes the sandbox, or answers with it if it is there already. What a killed call left
    /// half-made is removed first.
    fn create(&self, new: &NewSandbox) -> SandboxResult<CreatedSandbox>;

    /// The handle of a sandbox that was completely made.
    fn open(&self, id: SandboxId) -> SandboxResult<Box<dyn Sandbox>>;

    /// Makes `base` what the sandbox begins with, if it is not already. Its commit must be in the
    /// user's repository, and its tree where the sandbox sees it. Files follow by
    /// [`Sandbox::restore`]. Handles that were opened before keep the old base.
    fn set_base(&self, id: SandboxId, base: &SandboxBase) -> SandboxResult<()>;

    /// Removes the sandbox and the pin of its base; only a folder inside our root whose marker
    /// holds this very id.
    fn discard(&self, id: SandboxId) -> SandboxResult<DiscardOutcome>;

    /// Every sandbox there is, half-made ones included.
    fn list(&self) -> SandboxResult<Vec<SandboxId>>;

    /// What the folder of a sandbox says of itself; nothing if there is none, or nothing in it yet.
    fn read_marker(&self, id: SandboxId) -> SandboxResult<Option<SandboxMarker>>;

    /// What [`Sandbox::publish`] put into the repository at `path`, if it is still there.
    fn find_published(
        &self,
        path: &AbsolutePath,
        plan: PlanId,
    ) -> SandboxResult<Option<PublishedCommit>>;

    /// Takes back what [`Sandbox::publish`] put into the repository at `path`.
    fn withdraw(&self, path: &AbsolutePath, plan: PlanId) -> SandboxResult<()>;
}

/// One sandbox. Capture and restore of one sandbox wait for each other, across processes too.
pub trait Sandbox: Send + Sync + Debug {
    fn id(&self) -> SandboxId;

    /// The only folder a tool may write.
    fn tree(&self) -> &Path;

    /// The first `most` bytes of a file of the tree; nothing if there is no regular file at the
    /// path. No link is followed.
    fn read(&self, path: &ResourcePath, limit: usize) -> SandboxResult<Option<Vec<u8>>>;

    /// The paths of what is directly in a folder of the tree; none if there is no such folder. No
    /// link is followed.
    fn entries(&self, folder: &ResourcePath) -> SandboxResult<Vec<ResourcePath>>;

    /// A private folder outside the tree, for the home and the temporary files of commands.
    fn scratch(&self) -> SandboxResult<PathBuf>;

    /// The tree the sandbox began with.
    fn base(&self) -> &TreeId;

    /// Records how the tree stands and what changed since `previous`. Fails with
    /// [`SandboxError::Stopped`] soon after `stop` is given, and with [`SandboxError::OverLimit`]
    /// if there is more than one capture may record; nothing is recorded then.
    fn capture(
        &mut self,
        previous: &TreeId,
        touched: &TouchedPaths,
        stop: &StopSignal,
    ) -> SandboxResult<Capture>;

    /// Makes the tree exactly `tree` again; ignored files are carried over where they fit.
    /// Fails with [`SandboxError::Stopped`] soon after `stop` is given; it has to be made again
    /// then.
    fn restore(&mut self, tree: &TreeId, stop: &StopSignal) -> SandboxResult<()>;

    /// The difference of two captured trees, of all paths or of `paths` only. Fails with
    /// [`SandboxError::Stopped`] soon after `stop` is given.
    fn diff(
        &self,
        from: &TreeId,
        to: &TreeId,
        paths: &[ResourcePath],
        stop: &StopSignal,
    ) -> SandboxResult<TreeDiff>;

    /// What became of each path from one captured tree to the other, in order of paths; a file that
    /// moved is one that is gone and one that is new. Fails with [`SandboxError::Stopped`] soon
    /// after `stop` is given.
    fn net_changes(
        &self,
        from: &TreeId,
        to: &TreeId,
        stop: &StopSignal,
    ) -> SandboxResult<Vec<NetChange>>;

    /// Those of these paths at which no new content can be recorded, because git runs a filter on
    /// them that the user does not allow. Removing them can be recorded.
    fn filtered_paths(&self, paths: &[ResourcePath]) -> SandboxResult<Vec<ResourcePath>>;

    /// Which of these paths are files of a captured tree.
    fn files_in_tree(
        &self,
        tree: &TreeId,
        paths: &[ResourcePath],
    ) -> SandboxResult<Vec<ResourcePath>>;

    /// The tree that `tree` is without this part of its difference to `base`. Files follow by
    /// [`Sandbox::restore`].
    fn tree_without(&self, base: &TreeId, tree: &TreeId, part: &DiffPart) -> SandboxResult<TreeId>;

    /// The history the base stands on, the newest first: of all paths or of one, at most `limit`
    /// commits. A folder has none.
    fn log(&self, path: Option<&ResourcePath>, limit: u32) -> SandboxResult<Vec<LogEntry>>;

    /// Puts `tree` as a commit into the user's repository under `refs/cleveragents/`, with all it
    /// needs to outlive the sandbox. Fails with [`SandboxError::Stopped`] soon after `stop` is
    /// given, unless the commit was being handed over by then.
    fn publish(
        &self,
        tree: &TreeId,
        commit: &CommitMetadata,
        stop: &StopSignal,
    ) -> SandboxResult<PublishedCommit>;
}

/// What a sandbox is made of and for whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSandbox {
    pub id: SandboxId,
    pub plan: PlanId,
    pub resource: AbsolutePath,
    pub resource_type: ResourceType,
    pub base: BaseSource,
    /// Contents of `.worktreeinclude`, by BLAKE3, that the user consented to: credential files they
    /// name come along. Those that any other content names are left out.
    pub trusted_includes: Vec<String>,
}

/// The file of a resource that names ignored files to bring along.
pub const WORKTREE_INCLUDE: &str = ".worktreeinclude";

/// What is written in the folder of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxMarker {
    pub plan: PlanId,
    pub resource: AbsolutePath,
    pub resource_type: ResourceType,
}

/// A sandbox that can be worked in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedSandbox {
    pub tree: PathBuf,
    pub base: TreeId,
    /// The commit the base is or stands on; none of a folder or before the first commit.
    pub base_commit: Option<String>,
    pub warnings: Vec<Warning>,
}

/// What a sandbox begins with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxBase {
    pub tree: TreeId,
    /// The commit the base is or stands on; none of a folder or before the first commit.
    pub commit: Option<String>,
}

/// What people should know about a sandbox before work begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Warning {
    /// These files have changes that are not in the sandbox.
    Uncommitted(Vec<ResourcePath>),
    /// Their files are not in the sandbox; the commits they stand at are kept as they are.
    Submodules(Vec<ResourcePath>),
    /// Files with a `filter` attribute are in the sandbox as git stores them, and changes of them
    /// are refused.
    Filtered(Vec<ResourcePath>),
    /// The user's checkout is sparse; the sandbox has every file of the commit.
    Sparse,
    /// History ends early.
    Shallow,
    /// Things that could not be brought along.
    Omitted(Vec<OmittedPath>),
    /// Files with credentials that `.worktreeinclude` names without the user's consent.
    Credentials(Vec<ResourcePath>),
}

/// How many paths a warning names; the rest is counted.
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
                write!(f, "not brought along: {}", list_paths(paths))
            }
            Self::Credentials(paths) => write!(
                f,
                "credential files that {WORKTREE_INCLUDE} names are not in the sandbox \
                 (--trust brings them along): {}",
                list_paths(paths)
            ),
        }
    }
}

/// The first few paths.
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

/// What may have changed since the previous capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TouchedPaths {
    /// Only these paths; a folder stands for all that is in it.
    Paths(Vec<ResourcePath>),
    /// Anything.
    Unknown,
}

/// How a tree stands and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capture {
    pub tree: TreeId,
    /// Against the previous tree, in order of paths.
    pub changes: Vec<FileChange>,
    /// What was looked at but is not in the tree.
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

/// What became of one path between two trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetChange {
    pub path: ResourcePath,
    /// Absent if the path is new.
    pub before: Option<FileState>,
    /// Absent if the path is gone.
    pub after: Option<FileState>,
    pub lines: DiffLines,
}

/// A part of the difference of two trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiffPart {
    /// All that became of these paths.
    Paths(Vec<ResourcePath>),
    /// What this patch does, which must fit the later tree.
    Patch(Vec<u8>),
}

/// Something in a tree that is not captured.
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
    /// Git stores no file of this name.
    Name,
    /// Folders may be nested 200 deep.
    TooDeep,
    /// It may not be read; what was captured before is kept.
    Unreadable,
    /// It has a `filter` attribute; what was captured before is kept.
    Filtered,
    /// It lies in a submodule, whose commit is kept as it is.
    Submodule,
    /// A `.gitmodules` that git refuses, as its URL or path could run a command; what was captured
    /// before is kept.
    Modules,
}

impl OmissionReason {
    /// What the maker of a change is told of the paths it is refused at; nothing if the change is
    /// only left out.
    pub fn refusal_message(self, paths: &[ResourcePath]) -> Option<String> {
        let why = match self {
            Self::Filtered => {
                "Git runs a filter on these files, so plans cannot change them unless the user \
                 allows the filter (setting `sandbox.allow-filters`)."
            }
            Self::Submodule => "Plans cannot change files inside submodules.",
            Self::Name => "Git, or git on another file system, takes these names for its own.",
            Self::Modules => "Git refuses a URL or path in this file, as it could run a command.",
            Self::Unreadable => "Their permissions do not allow to read them: use `chmod u+r`.",
            Self::TooDeep => "Folders may be nested 200 deep.",
            Self::NestedRepository | Self::Socket | Self::Device | Self::Fifo => return None,
        };
        let paths: Vec<String> = paths.iter().map(ToString::to_string).collect();
        Some(format!("Refused: {}. {why}", paths.join(", ")))
    }
}

/// A patch `git apply` accepts, and its numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeDiff {
    pub patch: Vec<u8>,
    pub files: Vec<DiffStat>,
}

/// The numbers of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffStat {
    pub path: ResourcePath,
    pub renamed_from: Option<ResourcePath>,
    pub change: DiffChange,
    pub lines: DiffLines,
}

/// What became of a path from one tree to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffChange {
    Added,
    Deleted,
    /// Content or mode differ.
    Modified,
    /// From `renamed_from`; the content may differ too.
    Renamed,
    /// A file became a link, or the other way round.
    Retyped,
}

/// One commit of the base's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// The beginning of the commit's id.
    pub id: String,
    pub author: String,
    /// When it was written, in seconds since 1970, UTC.
    pub seconds: i64,
    /// The first line of its message.
    pub subject: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffLines {
    Text { inserted: u64, deleted: u64 },
    Binary,
}

/// Who made a commit, when and why; nothing of it is read from the environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitMetadata {
    pub name: String,
    pub email: String,
    /// Seconds since 1970, UTC.
    pub seconds: i64,
    pub message: String,
}

/// Where a published tree can be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedCommit {
    pub reference: String,
    pub commit: String,
}

/// What a user's repository is like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    pub checkout: Checkout,
    pub git_dir: PathBuf,
    /// Where refs and objects are; another folder than `git_dir` in a linked worktree.
    pub common_dir: PathBuf,
    pub object_format: ObjectFormat,
    pub head: RepositoryHead,
    pub history: HistoryCompleteness,
    /// Whether every object is here; if not, they would have to be fetched.
    pub objects: ObjectCompleteness,
    pub coverage: CheckoutCoverage,
    pub submodules: Vec<ResourcePath>,
    /// Tracked paths with a `filter` attribute.
    pub filtered: Vec<ResourcePath>,
    pub uncommitted: Vec<UncommittedFile>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checkout {
    /// The folder the checked out files are in.
    At(PathBuf),
    /// A repository without files; it cannot be worked on.
    Bare,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectFormat {
    Sha1,
    Sha256,
}

impl ObjectFormat {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
        }
    }

    /// How many hexadecimal digits the id of an object has.
    pub fn id_length(self) -> usize {
        match self {
            Self::Sha1 => 40,
            Self::Sha256 => 64,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepositoryHead {
    /// On a branch (its full name) at a commit.
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

/// A file of the user's that differs from the commit checked out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UncommittedFile {
    pub path: ResourcePath,
    pub kind: UncommittedKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UncommittedKind {
    /// Changed in the working tree only.
    Changed,
    /// Changed in the index, whatever the working tree says.
    Staged,
    /// Left by an unfinished merge.
    Unmerged,
    Untracked,
    /// A folder with a repository of its own, which is never brought along.
    UntrackedRepository,
}

/// Everything a sandbox may answer instead of a result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SandboxError {
    // Refusals: what was asked for cannot be had here.
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
    #[error("{} is left alone: {reason}", path.display())]
    Foreign { path: PathBuf, reason: String },

    // Someone has to do something first.
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

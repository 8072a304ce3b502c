//! Conflicts between a plan's result and the target that it is applied to.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::change::ResourcePath;
use crate::project::AbsolutePath;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Conflict {
    /// `None` if it does not concern a single path.
    pub path: Option<ResourcePath>,
    /// The working tree or folder it is in; `None` if it is in no folder.
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

/// The reason for a conflict.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    thiserror::Error,
)]
#[serde(rename_all = "snake_case")]
pub enum ConflictReason {
    #[error("both the plan and the target changed it ({kind})")]
    Merge {
        /// Git's name for it, such as `contents`.
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
    #[error("the plan wrote {mask} into it, which represents a secret: write the file again")]
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
    #[error("the working tree does not exist: mount it, or run `git worktree prune`")]
    Missing,
    #[error("a file already exists there: remove it or name another")]
    Exists,
    #[error("its previous content is kept as {kept}")]
    KeptAside { kept: String },
    #[error("it was reset or unlocked after an interruption: apply the plan again to continue")]
    Undone,
    #[error("it no longer exists: restore it, then apply the plan again")]
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
    /// Whether an immediate retry cannot help, because the user must act first.
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

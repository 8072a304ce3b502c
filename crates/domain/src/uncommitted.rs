//! Files of the user that are not committed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::change::ResourcePath;

/// A file of the user's that differs from the checked-out commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UncommittedFile {
    pub path: ResourcePath,
    pub kind: UncommittedKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UncommittedKind {
    /// Changed in the working tree only.
    Changed,
    /// Changed in the index, regardless of the working tree.
    Staged,
    /// Left by an unfinished merge.
    Unmerged,
    Untracked,
    /// A folder with a repository of its own, which is never copied.
    UntrackedRepository,
}

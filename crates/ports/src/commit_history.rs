//! The commits of a user's repository and the origin of its lines. Reading changes nothing.

use std::fmt::Debug;
use std::path::Path;

use cleveragents_domain::line_range::LineRange;
use cleveragents_domain::{AbsolutePath, ResourcePath};

use super::sandbox::SandboxResult;

pub trait CommitHistory: Send + Sync + Debug {
    /// Returns the commit that `revision` names in the repository around `folder`, or `None` if it
    /// names none.
    fn commit(&self, folder: &Path, revision: &str) -> SandboxResult<Option<HistoryCommit>>;

    /// Returns the origin of each line of a file as it is on disk, all or those in `lines`. Returns
    /// `None` if git does not track the file.
    fn blame(&self, file: &Path, lines: Option<LineRange>) -> SandboxResult<Option<FileBlame>>;
}

/// A commit as git stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryCommit {
    pub id: String,
    pub tree: String,
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileBlame {
    /// The folder of the working tree.
    pub root: AbsolutePath,
    /// The path of the file below the root.
    pub path: ResourcePath,
    /// In order.
    pub lines: Vec<BlamedLine>,
    /// The commits that the lines are from.
    pub commits: Vec<HistoryCommit>,
}

/// One line and the commit that wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlamedLine {
    /// Its number in the file, from 1.
    pub number: u32,
    /// Without the line ending.
    pub text: Vec<u8>,
    /// `None` for a line that is not committed.
    pub origin: Option<LineOrigin>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineOrigin {
    pub commit: String,
    /// The path of the file in that commit.
    pub path: ResourcePath,
    /// The number of the line there, from 1.
    pub number: u32,
    pub author: String,
    /// Author time in seconds since 1970, UTC.
    pub seconds: i64,
    /// The first line of the commit's message.
    pub subject: String,
}

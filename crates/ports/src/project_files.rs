//! The port for files that a project's folder contains for us. They come with a repository and are
//! not trusted.

use std::fmt;
use std::path::{Path, PathBuf};

use cleveragents_domain::{AbsolutePath, ResourcePath};

/// Reads the files in `.agents` folders.
pub trait ProjectFiles: fmt::Debug + Send + Sync {
    /// Returns the nearest folder at or above `from` that defines actions.
    fn enclosing_project(&self, from: &Path) -> Option<PathBuf>;

    /// Returns the files that define actions in the project at `root`, sorted by name, each with
    /// at most `maximum` bytes of its content. Never follows a link out of the folder. The outer
    /// result fails if the folder cannot be listed, an inner one if its file cannot be read.
    fn action_files(
        &self,
        root: &Path,
        maximum: usize,
    ) -> Result<Vec<ProjectFileResult>, ProjectFileError>;

    /// Returns at most `maximum` bytes of the project's `.worktreeinclude`, if it has one.
    fn include_file(
        &self,
        root: &Path,
        maximum: usize,
    ) -> Result<Option<Vec<u8>>, ProjectFileError>;
}

pub type ProjectFileResult = Result<ProjectFile, ProjectFileError>;

/// A file and its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectFile {
    /// The path for messages, as the user would write it.
    pub display_path: PathBuf,
    /// The canonical path of the project.
    pub project: AbsolutePath,
    /// The canonical path of the file, below the project. Equal for two links to the same file.
    pub path: ResourcePath,
    pub content: Vec<u8>,
}

/// A file or folder that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ProjectFileError {
    pub path: PathBuf,
    pub reason: String,
}

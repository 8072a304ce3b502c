//! Private git directories: their configuration is a text that we wrote, and git obeys nothing else.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use cleveragents_ports::sandbox::{ObjectFormat, SandboxResult};

use crate::files::{Sync, create_private_folder, read_if_exists, remove, replace_with_sync};

/// A git directory in the data directory. Any git command may run in it, because its configuration
/// names no program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PrivateGitDir(PathBuf);

impl PrivateGitDir {
    /// The caller must pass a folder of the data directory and [`seal`](Self::seal) it before git
    /// reads it.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Creates an empty repository.
    pub(crate) fn init(&self, format: ObjectFormat) -> SandboxResult<()> {
        for name in ["info", "objects/info", "objects/pack", "refs/heads"] {
            create_private_folder(&self.join(name))?;
        }
        self.seal(format)
    }

    /// Makes sure that git finds only our own configuration here.
    pub(crate) fn seal(&self, format: ObjectFormat) -> SandboxResult<()> {
        let expected = match format {
            ObjectFormat::Sha1 => "[core]\n\trepositoryformatversion = 0\n\tbare = false\n",
            ObjectFormat::Sha256 => {
                "[core]\n\trepositoryformatversion = 1\n\tbare = false\n[extensions]\n\tobjectformat = sha256\n"
            }
        };
        let head = self.join("HEAD");
        if head.is_symlink() || !read_if_exists(&head)?.is_some_and(|it| it.ends_with(b"\n")) {
            replace_with_sync(&head, b"ref: refs/heads/main\n", Sync::No)?;
        }
        // Not synced, because it is checked before every use.
        let path = self.join("config");
        let is_link = path.is_symlink();
        if is_link || read_if_exists(&path)?.as_deref() != Some(expected.as_bytes()) {
            replace_with_sync(&path, expected.as_bytes(), Sync::No)?;
        }
        for name in ["commondir", "config.worktree"] {
            remove(&self.join(name))?;
        }
        Ok(())
    }
}

impl Deref for PrivateGitDir {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

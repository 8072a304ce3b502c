//! A view of a user's working tree: git sees the user's files, objects and a copy of the index, but
//! reads a configuration of ours.
//!
//! Commands that touch files or an index run here and never in the user's git directory, because its
//! configuration could make them start a program: a filter, a monitor, a merge driver, a submodule
//! helper.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use cleveragents_ports::sandbox::{Checkout, SandboxError, SandboxResult};

use crate::files::{Sync, io_error, replace_with_sync};
use crate::git::Git;
use crate::git_call::GitCall;
use crate::git_files;
use crate::make_git::{alternates_line, copy_index};
use crate::private_dir::PrivateGitDir;
use crate::repository::{RepositoryInfo, UserRepository};
use crate::scratch::ScratchFolder;
use crate::temporary_names;
use crate::user_settings::UserSettings;

/// A private git directory for one working tree. It is removed on drop.
#[derive(Debug)]
pub(crate) struct RepositoryView {
    git: Git,
    dir: PrivateGitDir,
    root: PathBuf,
    settings: UserSettings,
    _folder: ScratchFolder,
}

impl RepositoryView {
    /// Copies the current index. `HEAD` points to no commit.
    pub(crate) fn new(repository: &UserRepository) -> SandboxResult<Self> {
        let found: &RepositoryInfo = repository;
        let Checkout::At(root) = &found.checkout else {
            return Err(SandboxError::Bare {
                path: found.git_dir.clone(),
            });
        };
        let git = repository.git();
        let folder = git.scratch.create_folder()?;
        let view = Self {
            git: git.clone(),
            dir: PrivateGitDir::new(folder.to_owned()),
            root: root.clone(),
            settings: found.settings.clone(),
            _folder: folder,
        };
        view.dir.init(found.object_format)?;
        let objects = alternates_line(repository.objects_dir().as_os_str().as_bytes());
        let alternates = view.dir.join("objects/info/alternates");
        replace_with_sync(&alternates, &objects, Sync::No)?;
        view.write_exclude(&found.common_dir)?;
        view.copy(&found.common_dir, "info/attributes")?;
        view.copy(&found.git_dir, "info/sparse-checkout")?;
        view.copy_index(&found.git_dir)?;
        Ok(view)
    }

    /// Copies a file that affects what git sees, if it exists. Need not survive a power failure.
    fn copy(&self, from: &Path, name: &str) -> SandboxResult<()> {
        match git_files::read(from, name)? {
            Some(content) => replace_with_sync(&self.dir.join(name), &content, Sync::No),
            None => Ok(()),
        }
    }

    /// Writes the repository's own ignore rules, and one for the temporary files of applies.
    fn write_exclude(&self, common_dir: &Path) -> SandboxResult<()> {
        let mut content = temporary_names::exclude_line().into_bytes();
        content.extend(git_files::read(common_dir, "info/exclude")?.unwrap_or_default());
        replace_with_sync(&self.dir.join("info/exclude"), &content, Sync::No)
    }

    /// Also copies the shared part of a split index, which the index refers to by name.
    fn copy_index(&self, git_dir: &Path) -> SandboxResult<()> {
        let users = git_dir.join("index");
        if !users.exists() {
            return Ok(());
        }
        copy_index(&users, &self.index())?;
        for entry in fs::read_dir(git_dir).map_err(io_error(git_dir))? {
            let name = entry.map_err(io_error(git_dir))?.file_name();
            if name.as_bytes().starts_with(b"sharedindex.") {
                let link = self.dir.join(&name);
                symlink(git_dir.join(&name), &link).map_err(io_error(&link))?;
            }
        }
        Ok(())
    }

    pub(crate) fn set_head(&self, commit: &str) -> SandboxResult<()> {
        let head = self.dir.join("HEAD");
        replace_with_sync(&head, format!("{commit}\n").as_bytes(), Sync::No)
    }

    /// Marks the commits whose parents the repository lacks.
    pub(crate) fn copy_shallow(&self, common_dir: &Path) -> SandboxResult<()> {
        self.copy(common_dir, "shallow")
    }

    /// The path of the copied index.
    pub(crate) fn index(&self) -> PathBuf {
        self.dir.join("index")
    }

    /// Creates a run of git on the user's files, with the settings they depend on.
    pub(crate) fn call<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> GitCall {
        let call = self.git.private_call(&self.dir, arguments);
        // Git resolves paths relative to its working directory.
        let call = call.work_tree(&self.root).directory(&self.root);
        self.settings.apply_to(call)
    }
}

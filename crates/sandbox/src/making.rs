//! What all kinds of sandboxes have in common while they are made.

use std::os::fd::AsFd;
use std::path::Path;
use std::thread;

use cleveragents_beneath::ignore_rules::{Case, Rules};
use cleveragents_engine::ports::sandbox::{
    ObjectFormat, SandboxResult, TreeId, WORKTREE_INCLUDE, Warning,
};
use cleveragents_engine::trust::content_hash;
use cleveragents_engine::trust::credentials::is_credential_file;
use ignore::gitignore::GitignoreBuilder;
use rustix::fs::FileType;

use crate::beneath::{open_root, stat_beneath};
use crate::entries::Entries;
use crate::files::{failed, path_of, read_if_there, resource_path};
use crate::git::Git;
use crate::git_files;
use crate::layout::{Conversion, Layout, Made, Marker};
use crate::placing::copy;
use crate::restore::give_to_commands;
use crate::sandbox::LocalSandbox;
use crate::walk::{Known, Tracked, Walker};

/// A sandbox with an empty store, of which nothing is known yet.
pub(crate) fn begin(
    git: &Git,
    layout: &Layout,
    marker: &Marker,
    locks: &Path,
    format: ObjectFormat,
) -> SandboxResult<LocalSandbox> {
    let nothing = "0".repeat(format.id_length());
    let made = Made {
        tree: TreeId::new(&nothing, None)?,
        base_commit: None,
        object_format: format,
        shaping: Vec::new(),
        attributes: String::new(),
        conversion: Conversion::Never,
        warnings: Vec::new(),
    };
    let mut marker = marker.clone();
    marker.made = Some(made);
    let mut sandbox = LocalSandbox::new(git, layout.clone(), marker, locks)?;
    sandbox.store.init()?;
    let empty = sandbox.store.empty_tree()?;
    sandbox.set_attributes(empty.clone());
    sandbox.made.tree = TreeId::new(&empty, None)?;
    Ok(sandbox)
}

/// Copies the ignored files that `.worktreeinclude` of the resource names. They are not captured
/// and not applied, because they are ignored in the sandbox too.
///
/// The file comes with the repository, so credential files that it names are left out and warned
/// of, unless the user consented to exactly this content of it.
pub(crate) fn include(
    sandbox: &LocalSandbox,
    resource: &Path,
    rules: &Rules<'_>,
    tracked: &Entries,
    trusted_includes: &[String],
) -> SandboxResult<Option<Warning>> {
    let Some(content) = git_files::read(resource, WORKTREE_INCLUDE)? else {
        return Ok(None);
    };
    let is_trusted = trusted_includes.contains(&content_hash(&content));
    let mut builder = GitignoreBuilder::new(".");
    for line in String::from_utf8_lossy(&content).lines() {
        // A line that is no pattern matches nothing.
        let _ = builder.add_line(None, line);
    }
    let Ok(wanted) = builder.build() else {
        return Ok(None);
    };
    let mut walker = Walker::new(resource, rules, tracked)?;
    walker.all()?;
    let (from, to) = (open_root(resource)?, open_root(&sandbox.layout.tree())?);
    let mut left_out = Vec::new();
    for path in files_in(resource, &walker.walked.ignored)? {
        let is_wanted = wanted.matched_path_or_any_parents(path_of(&path), false);
        if !is_wanted.is_ignore() {
            continue;
        }
        if !is_trusted && is_credential_file(&path) {
            left_out.push(resource_path(&path)?);
            continue;
        }
        let stat = stat_beneath(from.as_fd(), &path);
        let stat = stat.map_err(|error| crate::beneath::failed(path_of(&path), error))?;
        if matches!(stat.kind(), FileType::RegularFile | FileType::Symlink) {
            copy(from.as_fd(), to.as_fd(), &path, &stat)?;
        }
    }
    give_to_commands(sandbox, &sandbox.layout.tree())?;
    Ok((!left_out.is_empty()).then_some(Warning::Credentials(left_out)))
}

/// All that is in these files and folders, repositories apart.
fn files_in(resource: &Path, paths: &[Vec<u8>]) -> SandboxResult<Vec<Vec<u8>>> {
    let everything = Rules::everywhere(b"", Case::Sensitive);
    let mut files = Vec::new();
    let mut walker = Walker::new(resource, &everything, &Everything)?;
    for path in paths {
        walker.only(path)?;
    }
    files.extend(walker.walked.files.into_keys());
    Ok(files)
}

/// Takes every path for tracked, so that none is ignored.
struct Everything;

impl Tracked for Everything {
    fn known(&self, _path: &[u8]) -> Known {
        Known::File
    }

    fn has_inside(&self, _folder: &[u8]) -> bool {
        true
    }
}

/// Copies a small file of the user's repository, if it is there.
pub(crate) fn copy_if_there(from: &Path, to: &Path) -> SandboxResult<()> {
    match read_if_there(from) {
        Ok(Some(content)) => crate::files::replace(to, &content),
        Ok(None) => Ok(()),
        Err(_) if !from.is_file() => Ok(()),
        Err(error) => Err(error),
    }
}

/// The file as bytes, nothing if it cannot be had.
pub(crate) fn content_of(path: &Path) -> SandboxResult<Vec<u8>> {
    match path.is_file() {
        true => std::fs::read(path).map_err(failed(path)),
        false => Ok(Vec::new()),
    }
}

/// What a thread answered; if it panicked, so do we.
pub(crate) fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    match thread.join() {
        Ok(answer) => answer,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

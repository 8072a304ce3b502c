//! Steps that the creation of all kinds of sandboxes shares.

use std::os::fd::AsFd;
use std::path::Path;
use std::thread;

use cleveragents_domain::credential_file::is_credential_file;
use cleveragents_ports::BlobHash;
use cleveragents_ports::sandbox::{ObjectFormat, SandboxResult, TreeId, WORKTREE_INCLUDE, Warning};
use cleveragents_safe_fs::ignore_rules::{IgnoreRules, NameCase};
use ignore::gitignore::GitignoreBuilder;
use rustix::fs::FileType;

use crate::entries::TreeEntries;
use crate::files::{io_error, path_from_bytes, read_if_exists, resource_path};
use crate::git::Git;
use crate::git_files;
use crate::layout::{ContentConversion, Layout, Marker, SandboxProperties};
use crate::restore::chown_for_commands;
use crate::safe_fs::{open_root, stat_at};
use crate::sandbox::LocalSandbox;
use crate::tree_files::copy;
use crate::walk::{SandboxWalker, TrackedKind, TrackedPaths};

/// Creates a sandbox with an empty store and default properties.
pub(crate) fn create_empty_sandbox(
    git: &Git,
    layout: &Layout,
    marker: &Marker,
    locks: &Path,
    format: ObjectFormat,
) -> SandboxResult<LocalSandbox> {
    let nothing = "0".repeat(format.id_length());
    let made = SandboxProperties {
        tree: TreeId::new(&nothing, None)?,
        base_commit: None,
        object_format: format,
        shaping: Vec::new(),
        attributes: String::new(),
        conversion: ContentConversion::Never,
        warnings: Vec::new(),
    };
    let mut marker = marker.clone();
    marker.made = Some(made);
    let mut sandbox = LocalSandbox::new(git, layout.clone(), marker, locks)?;
    sandbox.store.init()?;
    let empty = sandbox.store.empty_tree()?;
    sandbox.set_attributes(empty.clone());
    sandbox.properties.tree = TreeId::new(&empty, None)?;
    Ok(sandbox)
}

/// Copies the ignored files that `.worktreeinclude` of the resource names. They are ignored in the
/// sandbox too, so they are neither captured nor applied.
///
/// The file comes with the repository, so credential files that it names are left out with a warning,
/// unless the user consented to exactly this content of it.
pub(crate) fn copy_included_files(
    sandbox: &LocalSandbox,
    resource: &Path,
    rules: &IgnoreRules<'_>,
    tracked: &TreeEntries,
    trusted_includes: &[String],
) -> SandboxResult<Option<Warning>> {
    let Some(content) = git_files::read(resource, WORKTREE_INCLUDE)? else {
        return Ok(None);
    };
    let is_trusted = trusted_includes.contains(&BlobHash::of(&content).to_string());
    let mut builder = GitignoreBuilder::new(".");
    for line in String::from_utf8_lossy(&content).lines() {
        // An invalid pattern matches nothing.
        let _ = builder.add_line(None, line);
    }
    let Ok(included) = builder.build() else {
        return Ok(None);
    };
    let mut walker = SandboxWalker::new(resource, rules, tracked)?;
    walker.walk_all()?;
    let (from, to) = (open_root(resource)?, open_root(&sandbox.layout.tree())?);
    let mut left_out = Vec::new();
    for path in files_in(resource, &walker.result.ignored)? {
        let included_match = included.matched_path_or_any_parents(path_from_bytes(&path), false);
        if !included_match.is_ignore() {
            continue;
        }
        if !is_trusted && is_credential_file(&path) {
            left_out.push(resource_path(&path)?);
            continue;
        }
        let stat = stat_at(from.as_fd(), &path);
        let stat =
            stat.map_err(|error| crate::safe_fs::errno_error(path_from_bytes(&path), error))?;
        if matches!(stat.kind(), FileType::RegularFile | FileType::Symlink) {
            copy(from.as_fd(), to.as_fd(), &path, &stat)?;
        }
    }
    chown_for_commands(sandbox, &sandbox.layout.tree())?;
    Ok((!left_out.is_empty()).then_some(Warning::Credentials(left_out)))
}

/// Returns all files in these files and folders, without nested repositories.
fn files_in(resource: &Path, paths: &[Vec<u8>]) -> SandboxResult<Vec<Vec<u8>>> {
    let everything = IgnoreRules::global(b"", NameCase::Sensitive);
    let mut files = Vec::new();
    let mut walker = SandboxWalker::new(resource, &everything, &AllTracked)?;
    for path in paths {
        walker.walk_path(path)?;
    }
    files.extend(walker.result.files.into_keys());
    Ok(files)
}

/// Treats every path as tracked, so that none is ignored.
struct AllTracked;

impl TrackedPaths for AllTracked {
    fn tracked_kind(&self, _path: &[u8]) -> TrackedKind {
        TrackedKind::File
    }

    fn has_paths_in(&self, _folder: &[u8]) -> bool {
        true
    }
}

/// Copies a small file of the user's repository, if it exists.
pub(crate) fn copy_if_exists(from: &Path, to: &Path) -> SandboxResult<()> {
    match read_if_exists(from) {
        Ok(Some(content)) => crate::files::replace(to, &content),
        Ok(None) => Ok(()),
        Err(_) if !from.is_file() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns the content of a file, or nothing if the path is not a file.
pub(crate) fn read_or_empty(path: &Path) -> SandboxResult<Vec<u8>> {
    if path.is_file() {
        std::fs::read(path).map_err(io_error(path))
    } else {
        Ok(Vec::new())
    }
}

/// Returns the result of a thread, and panics if the thread panicked.
pub(crate) fn join_thread<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    match thread.join() {
        Ok(answer) => answer,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

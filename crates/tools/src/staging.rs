//! Replaces files atomically: writes outside the tree and renames into it.
//!
//! A killed call leaves nothing half-written, and nothing that a capture would record as a file of
//! the tree. A rename replaces the name and not the file behind it, so neither a symbolic nor a
//! hard link redirects a write. Nothing is synced: after a power failure the sandbox is rebuilt
//! from the captured tree.

use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;

use cleveragents_ports::sandbox::TouchedPaths;
use cleveragents_ports::tools::{ToolFailure, ToolInvocation};
use cleveragents_safe_fs::file_access::{open_root, reopen};
use cleveragents_safe_fs::owner::inherit_owner;
use cleveragents_safe_fs::path_from_bytes;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, openat, renameat, renameat_with, unlinkat};
use rustix::io::Errno;

use crate::builtin::failed;
use crate::paths::TreePath;

/// Maximum number of leftover files of killed calls.
const MAX_NAMES: u32 = 10_000;

/// Permissions of a new file, before the process's umask.
const NEW_FILE_MODE: u32 = 0o666;

/// Replaces the file at `target` with one written by `fill`. Its permissions are `mode`, or those of
/// the existing file.
pub(crate) fn replace_file(
    call: &ToolInvocation<'_>,
    target: &TreePath,
    mode: Option<u32>,
    fill: &mut dyn FnMut(&mut File) -> Result<(), ToolFailure>,
) -> Result<(), ToolFailure> {
    // Outside the tree, so that a capture never sees a half-written file.
    let scratch = call.sandbox.scratch()?;
    let scratch = open_root(&scratch).map_err(|error| target.io_failure("be written", error))?;
    let mut staged = StagedFile::new(target, scratch, "writing")?;
    staged.fill(target, mode, fill)?;
    let folder = target.entry.make_folder();
    let folder = folder.map_err(|error| target.io_failure("be written", error))?;
    let renamed = match staged.rename(target, folder.as_fd()) {
        // The scratch folder is on another file system.
        Err(Errno::XDEV) => {
            // A rename needs one file system, so the file is written beside the target.
            let beside =
                reopen(folder.as_fd()).map_err(|error| target.io_failure("be written", error))?;
            let mut staged = StagedFile::new(target, beside, ".cleveragents-writing")?;
            staged.fill(target, mode, fill)?;
            staged.rename(target, folder.as_fd())
        }
        renamed => renamed,
    };
    renamed.map_err(|error| replace_failure(target, error))
}

/// Reports the path as touched, because parent folders may have been created.
fn replace_failure(target: &TreePath, error: Errno) -> ToolFailure {
    let path = &target.path;
    let reason = match error {
        Errno::EXIST => format!("{path} was created meanwhile: repeat the call"),
        error => format!("{path} cannot be written: {}", io::Error::from(error)),
    };
    let touched = TouchedPaths::Paths(vec![path.clone()]);
    ToolFailure::Failed { reason, touched }
}

/// A file under an unused name. The name is empty after the rename; until then drop removes the file.
struct StagedFile {
    folder: OwnedFd,
    name: Vec<u8>,
    file: File,
}

impl StagedFile {
    fn new(target: &TreePath, folder: OwnedFd, stem: &str) -> Result<Self, ToolFailure> {
        let flags =
            // `EXCL` claims the name: calls that run at the same time take different numbers (law
            // 3).
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for number in 0..MAX_NAMES {
            let name = format!("{stem}-{number}").into_bytes();
            match openat(
                &folder,
                path_from_bytes(&name),
                flags,
                Mode::from_raw_mode(NEW_FILE_MODE),
            ) {
                Ok(file) => {
                    let file = File::from(file);
                    return Ok(Self { folder, name, file });
                }
                Err(Errno::EXIST) => {}
                Err(error) => return Err(target.io_failure("be written", error)),
            }
        }
        Err(failed("there are too many unfinished files in the sandbox"))
    }

    fn fill(
        &mut self,
        target: &TreePath,
        mode: Option<u32>,
        fill: &mut dyn FnMut(&mut File) -> Result<(), ToolFailure>,
    ) -> Result<(), ToolFailure> {
        fill(&mut self.file)?;
        let mode = mode.or(target.entry.stat.map(|stat| stat.mode));
        let set = mode.map(|mode| {
            // Without set-user-id bits: new content must not inherit them.
            let permissions = Permissions::from_mode(mode & 0o777);
            self.file.set_permissions(permissions)
        });
        set.transpose()
            .map(drop)
            .map_err(|error| write_failure(target, &error))
    }

    /// If nothing existed when the path was resolved, nothing may exist now.
    fn rename(&mut self, target: &TreePath, folder: BorrowedFd<'_>) -> Result<(), Errno> {
        // Before the rename, so that the file never appears in the tree with the wrong owner.
        inherit_owner(folder, self.file.as_fd())?;
        let (from, to) = (
            path_from_bytes(&self.name),
            path_from_bytes(&target.entry.name),
        );
        match target.entry.stat {
            Some(_) => renameat(&self.folder, from, folder, to),
            None => renameat_with(&self.folder, from, folder, to, RenameFlags::NOREPLACE),
        }?;
        self.name.clear();
        Ok(())
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            // Errors are ignored, because a leftover file blocks no later call.
            let _ = unlinkat(&self.folder, path_from_bytes(&self.name), AtFlags::empty());
        }
    }
}

pub(crate) fn write_failure(target: &TreePath, error: &io::Error) -> ToolFailure {
    failed(format!("{} cannot be written: {error}", target.path))
}

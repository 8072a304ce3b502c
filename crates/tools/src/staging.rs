//! Files replaced whole: written outside the tree and renamed into it.
//!
//! A call that is killed leaves nothing half-written, and nothing that a capture would take for a
//! file of the tree. A rename changes the name and not the file behind it, so neither a link nor
//! a hard link leads a write elsewhere. Nothing is synced: what outlives a power cut is the
//! captured tree, from which the sandbox is rebuilt.

use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;

use cleveragents_engine::ports::sandbox::TouchedPaths;
use cleveragents_engine::ports::tools::{ToolFailure, ToolInvocation};
use cleveragents_safe_fs::file_access::{open_root, reopen};
use cleveragents_safe_fs::owner::inherit_owner;
use cleveragents_safe_fs::path_from_bytes;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, openat, renameat, renameat_with, unlinkat};
use rustix::io::Errno;

use crate::builtin::failed;
use crate::paths::TreePath;

/// As many files as may be left by calls that were killed.
const MAX_NAMES: u32 = 10_000;

/// A new file's permissions, before the process's mask.
const NEW_FILE_MODE: u32 = 0o666;

/// Puts a file at `spot` in place of what is there, made by `fill`. Permissions of a file that is
/// there are kept, or are `mode`.
pub(crate) fn replace_file(
    call: &ToolInvocation<'_>,
    target: &TreePath,
    mode: Option<u32>,
    fill: &mut dyn FnMut(&mut File) -> Result<(), ToolFailure>,
) -> Result<(), ToolFailure> {
    let scratch = call.sandbox.scratch()?;
    let scratch = open_root(&scratch).map_err(|error| target.io_failure("be written", error))?;
    let mut staged = StagedFile::new(target, scratch, "writing")?;
    staged.fill(target, mode, fill)?;
    let folder = target.entry.make_folder();
    let folder = folder.map_err(|error| target.io_failure("be written", error))?;
    let renamed = match staged.rename(target, folder.as_fd()) {
        // The scratch folder is on another file system.
        Err(Errno::XDEV) => {
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

/// Folders may have been made on the way.
fn replace_failure(target: &TreePath, error: Errno) -> ToolFailure {
    let path = &target.path;
    let reason = match error {
        Errno::EXIST => format!("{path} has just come to be: repeat the call"),
        error => format!("{path} cannot be written: {}", io::Error::from(error)),
    };
    let touched = TouchedPaths::Paths(vec![path.clone()]);
    ToolFailure::Failed { reason, touched }
}

/// A file under a name that is nobody's, empty once it was renamed; removed unless it was.
struct StagedFile {
    folder: OwnedFd,
    name: Vec<u8>,
    file: File,
}

impl StagedFile {
    fn new(target: &TreePath, folder: OwnedFd, stem: &str) -> Result<Self, ToolFailure> {
        let flags =
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
            let permissions = Permissions::from_mode(mode & 0o777);
            self.file.set_permissions(permissions)
        });
        set.transpose()
            .map(drop)
            .map_err(|error| write_failure(target, &error))
    }

    /// What was not there when it was looked at must still not be.
    fn rename(&mut self, target: &TreePath, folder: BorrowedFd<'_>) -> Result<(), Errno> {
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
            // What stays is in nobody's way.
            let _ = unlinkat(&self.folder, path_from_bytes(&self.name), AtFlags::empty());
        }
    }
}

pub(crate) fn write_failure(target: &TreePath, error: &io::Error) -> ToolFailure {
    failed(format!("{} cannot be written: {error}", target.path))
}

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

use cleveragents_beneath::owner::inherit_owner;
use cleveragents_beneath::path_of;
use cleveragents_beneath::reach::{open_root, reopen};
use cleveragents_engine::ports::sandbox::Touched;
use cleveragents_engine::ports::tools::{Call, ToolFailure};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, openat, renameat, renameat_with, unlinkat};
use rustix::io::Errno;

use crate::builtin::failed;
use crate::place::Spot;

/// As many files as may be left by calls that were killed.
const MOST_NAMES: u32 = 10_000;

/// A new file's permissions, before the process's mask.
const NEW: u32 = 0o666;

/// Puts a file at `spot` in place of what is there, made by `fill`. Permissions of a file that is
/// there are kept, or are `mode`.
pub(crate) fn place(
    call: &Call<'_>,
    spot: &Spot,
    mode: Option<u32>,
    fill: &mut dyn FnMut(&mut File) -> Result<(), ToolFailure>,
) -> Result<(), ToolFailure> {
    let scratch = call.sandbox.scratch()?;
    let scratch = open_root(&scratch).map_err(|error| spot.failed("be written", error))?;
    let mut staged = Staged::new(spot, scratch, "writing")?;
    staged.fill(spot, mode, fill)?;
    let folder = spot.entry.make_folder();
    let folder = folder.map_err(|error| spot.failed("be written", error))?;
    let renamed = match staged.rename(spot, folder.as_fd()) {
        // The scratch folder is on another file system.
        Err(Errno::XDEV) => {
            let beside =
                reopen(folder.as_fd()).map_err(|error| spot.failed("be written", error))?;
            let mut staged = Staged::new(spot, beside, ".cleveragents-writing")?;
            staged.fill(spot, mode, fill)?;
            staged.rename(spot, folder.as_fd())
        }
        renamed => renamed,
    };
    renamed.map_err(|error| unplaced(spot, error))
}

/// Folders may have been made on the way.
fn unplaced(spot: &Spot, error: Errno) -> ToolFailure {
    let path = &spot.path;
    let reason = match error {
        Errno::EXIST => format!("{path} has just come to be: repeat the call"),
        error => format!("{path} cannot be written: {}", io::Error::from(error)),
    };
    let touched = Touched::Paths(vec![path.clone()]);
    ToolFailure::Failed { reason, touched }
}

/// A file under a name that is nobody's, empty once it was renamed; removed unless it was.
struct Staged {
    folder: OwnedFd,
    name: Vec<u8>,
    file: File,
}

impl Staged {
    fn new(spot: &Spot, folder: OwnedFd, stem: &str) -> Result<Self, ToolFailure> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for number in 0..MOST_NAMES {
            let name = format!("{stem}-{number}").into_bytes();
            match openat(&folder, path_of(&name), flags, Mode::from_raw_mode(NEW)) {
                Ok(file) => {
                    let file = File::from(file);
                    return Ok(Self { folder, name, file });
                }
                Err(Errno::EXIST) => {}
                Err(error) => return Err(spot.failed("be written", error)),
            }
        }
        Err(failed("there are too many unfinished files in the sandbox"))
    }

    fn fill(
        &mut self,
        spot: &Spot,
        mode: Option<u32>,
        fill: &mut dyn FnMut(&mut File) -> Result<(), ToolFailure>,
    ) -> Result<(), ToolFailure> {
        fill(&mut self.file)?;
        let mode = mode.or(spot.entry.stat.map(|stat| stat.mode));
        let set = mode.map(|mode| {
            let permissions = Permissions::from_mode(mode & 0o777);
            self.file.set_permissions(permissions)
        });
        set.transpose()
            .map(drop)
            .map_err(|error| not_written(spot, &error))
    }

    /// What was not there when it was looked at must still not be.
    fn rename(&mut self, spot: &Spot, folder: BorrowedFd<'_>) -> Result<(), Errno> {
        inherit_owner(folder, self.file.as_fd())?;
        let (from, to) = (path_of(&self.name), path_of(&spot.entry.name));
        match spot.entry.stat {
            Some(_) => renameat(&self.folder, from, folder, to),
            None => renameat_with(&self.folder, from, folder, to, RenameFlags::NOREPLACE),
        }?;
        self.name.clear();
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            // What stays is in nobody's way.
            let _ = unlinkat(&self.folder, path_of(&self.name), AtFlags::empty());
        }
    }
}

pub(crate) fn not_written(spot: &Spot, error: &io::Error) -> ToolFailure {
    failed(format!("{} cannot be written: {error}", spot.path))
}

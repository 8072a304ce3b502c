//! Moves one path of the user from its old state to its new one by compare-and-swap.
//!
//! The new content is written to a temporary name beside the path and then swapped with the path
//! atomically. Only then is the replaced content checked; if it is unexpected, it is swapped back.
//! So no foreign content is lost even if it appeared at the last moment, and a kill at any point
//! leaves both contents on disk under distinct names. Leftovers are resolved before a path is
//! written (law 9).

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cleveragents_domain::id::ApplyId;
use cleveragents_ports::sandbox::{SandboxError, SandboxResult};
use cleveragents_ports::targets::{ConflictReason, PathChange, PathState};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, fsync, openat, readlinkat, renameat,
    renameat_with, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use crate::apply::forbidden_changes::is_gitlink;
use crate::apply::path_inspector::{PathChangeState, PathContent, PathInspector};
use crate::apply::staging::sync_all;
use crate::apply::steps::{ApplyStep, Watcher};
use crate::entries::EXECUTABLE;
use crate::files::{Sync, io_error as io_failed, path_from_bytes};
use crate::safe_fs::{errno_error, open_file, open_folder, open_root, stat_at, with_parent};
use crate::temporary_names;
use cleveragents_safe_fs::file_access::{make_folder, split};

/// Suffix of a file that is not completely written.
const PART_SUFFIX: &[u8] = b".part";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PathWriteOutcome {
    Done,
    Conflict(ConflictReason),
}

/// Writes new contents below one folder.
#[derive(Debug)]
pub(crate) struct PathWriter<'a> {
    pub(crate) inspector: &'a PathInspector<'a>,
    /// The folder with the prepared new files.
    source: OwnedFd,
    id: ApplyId,
    watcher: &'a dyn Watcher,
    /// The only folders that may go when they are empty; any may if it is not known whose they are.
    own_folders: Option<BTreeSet<Vec<u8>>>,
}

impl<'a> PathWriter<'a> {
    pub(crate) fn new(
        inspector: &'a PathInspector<'a>,
        source: &Path,
        id: ApplyId,
        watcher: &'a dyn Watcher,
    ) -> SandboxResult<Self> {
        Ok(Self {
            inspector,
            source: open_root(source)?,
            id,
            watcher,
            own_folders: None,
        })
    }

    /// Limits the removal of empty folders to these.
    #[must_use]
    pub(crate) fn with_own_folders(mut self, folders: Option<BTreeSet<Vec<u8>>>) -> Self {
        self.own_folders = folders;
        self
    }

    /// Brings a path into its new state, after resolving leftovers beside it. `number`
    /// distinguishes the changes of one apply. A caller that passes `Sync::No` must sync all paths
    /// together afterwards.
    pub(crate) fn write_path(
        &self,
        number: usize,
        change: &PathChange,
        sync: Sync,
    ) -> SandboxResult<PathWriteOutcome> {
        let state = self.inspector.change_state(change)?;
        let is_foreign = matches!(state, PathChangeState::Foreign(_));
        if !is_foreign && is_gitlink(change.old.as_ref().or(change.new.as_ref())) {
            return self.write_submodule(change, sync);
        }
        match (state, &change.new) {
            (PathChangeState::New, Some(_)) => Ok(PathWriteOutcome::Done),
            (PathChangeState::New, None) => {
                self.remove_empty_parents(change.path.as_bytes());
                Ok(PathWriteOutcome::Done)
            }
            (PathChangeState::Foreign(reason), _) => Ok(PathWriteOutcome::Conflict(reason)),
            (PathChangeState::Old, Some(new)) => self.write(number, change, new, sync),
            (PathChangeState::Old, None) => self.remove_path(number, change, sync),
        }
    }

    /// Behaves like git: creates the folder of an added submodule, and removes that of a removed
    /// one if it is empty. Files in it are never touched.
    fn write_submodule(&self, change: &PathChange, sync: Sync) -> SandboxResult<PathWriteOutcome> {
        let path = change.path.as_bytes();
        let explain = |error| errno_error(path_from_bytes(path), error);
        if change.new.is_some() {
            match make_folder(self.inspector.root(), path) {
                Ok(_) => {}
                Err(Errno::NOTDIR | Errno::LOOP) => {
                    return Ok(PathWriteOutcome::Conflict(ConflictReason::Untracked));
                }
                Err(error) => return Err(explain(error)),
            }
        } else {
            let removed = self.with_parent(path, |folder, name| {
                unlinkat(folder, path_from_bytes(name), AtFlags::REMOVEDIR)
            });
            match removed {
                Ok(()) => self.remove_empty_parents(path),
                Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => {
                    return Ok(PathWriteOutcome::Done);
                }
                Err(Errno::NOTDIR | Errno::LOOP) => return Ok(PathWriteOutcome::Done),
                Err(error) => return Err(explain(error)),
            }
        }
        if sync == Sync::Yes {
            sync_all(self.inspector.root())?;
        }
        self.watcher.reached(ApplyStep::PathSettled);
        Ok(PathWriteOutcome::Done)
    }

    /// Writes the new content of a path beside it under its `.part` name, so that many files can be
    /// synced together. If that fails, [`Self::write_path`] reports why.
    pub(crate) fn write_draft(
        &self,
        number: usize,
        change: &PathChange,
        sync: Sync,
    ) -> SandboxResult<()> {
        let path = change.path.as_bytes();
        if is_gitlink(change.new.as_ref()) {
            return Ok(());
        }
        let (Some(new), Ok(folder)) = (
            &change.new,
            make_folder(self.inspector.root(), split(path).0),
        ) else {
            return Ok(());
        };
        if self.link_target(path)?.is_none() {
            let file = self.write_part(folder.as_fd(), number, change, new)?;
            if sync == Sync::Yes {
                file.sync_all().map_err(io_failed(path_from_bytes(path)))?;
            }
            self.watcher.reached(ApplyStep::PathDrafted);
        }
        Ok(())
    }

    /// Removes a draft that a killed call left. Nothing of the user's can be in it.
    pub(crate) fn unlink_draft(&self, number: usize, change: &PathChange) -> SandboxResult<()> {
        let path = self.temporary_path(number, change.path.as_bytes());
        self.unlink(&[&path, PART_SUFFIX].concat())
    }

    /// Removes an unused draft and the folders created for it.
    pub(crate) fn remove_draft(&self, number: usize, change: &PathChange) -> SandboxResult<()> {
        let path = change.path.as_bytes();
        self.unlink_draft(number, change)?;
        if change.old.is_none() {
            self.remove_empty_parents(path);
        }
        Ok(())
    }

    /// Returns our temporary name beside a path.
    fn temporary_name(&self, number: usize) -> String {
        temporary_names::temporary_name(self.id, number)
    }

    fn temporary_path(&self, number: usize, path: &[u8]) -> Vec<u8> {
        let (folder, _) = split(path);
        let name = self.temporary_name(number);
        if folder.is_empty() {
            name.into_bytes()
        } else {
            [folder, b"/", name.as_bytes()].concat()
        }
    }

    /// Removes leftovers of a killed call beside a path. Returns why the path cannot be written, if
    /// so.
    pub(crate) fn clean_up_path(
        &self,
        number: usize,
        change: &PathChange,
    ) -> SandboxResult<Option<ConflictReason>> {
        let aside = self.temporary_path(number, change.path.as_bytes());
        self.unlink(&[&aside, PART_SUFFIX].concat())?;
        self.clean_up_temporary(number, change)
    }

    /// Resolves the content under the temporary name: removes it if it is ours, otherwise restores
    /// it.
    fn clean_up_temporary(
        &self,
        number: usize,
        change: &PathChange,
    ) -> SandboxResult<Option<ConflictReason>> {
        let path = change.path.as_bytes();
        let aside = self.temporary_path(number, path);
        let found = self.inspector.inspect(&aside)?;
        if matches!(
            found,
            PathContent::Nothing | PathContent::BehindFile | PathContent::BehindLink
        ) {
            return Ok(None);
        }
        let is_new = change.new.is_some() && self.inspector.matches(change.new.as_ref(), &found);
        if is_new || self.inspector.is_old(change, &found, &aside)? {
            self.unlink(&aside)?;
            return Ok(None);
        }
        // A foreign edit was swapped out at the last moment. Restore it unless the path
        // changed again.
        let name = self.temporary_name(number);
        let here = self.inspector.inspect(path)?;
        let put_back = match &change.new {
            Some(_) if self.inspector.matches(change.new.as_ref(), &here) => {
                self.with_parent(path, |folder, file| swap_names(folder, &name, file))
            }
            None if here == PathContent::Nothing => self.with_parent(path, |folder, file| {
                move_if_free(folder, name.as_bytes(), file)
            }),
            _ => Err(Errno::EXIST),
        };
        match put_back {
            Ok(()) => {
                self.unlink(&aside)?;
                Ok(Some(ConflictReason::Changed))
            }
            Err(_) => Ok(Some(ConflictReason::KeptAside { kept: name })),
        }
    }

    fn write(
        &self,
        number: usize,
        change: &PathChange,
        new: &PathState,
        sync: Sync,
    ) -> SandboxResult<PathWriteOutcome> {
        let path = change.path.as_bytes();
        let explain = |error| errno_error(path_from_bytes(path), error);
        let (folder, name) = split(path);
        let folder = match make_folder(self.inspector.root(), folder) {
            Ok(folder) => folder,
            Err(Errno::NOTDIR | Errno::LOOP) => {
                return Ok(PathWriteOutcome::Conflict(ConflictReason::BehindLink));
            }
            Err(error) => return Err(explain(error)),
        };
        if change.old.is_none() && !remove_empty(folder.as_fd(), name) {
            return Ok(PathWriteOutcome::Conflict(ConflictReason::Untracked));
        }
        self.write_temporary(folder.as_fd(), number, change, new)?;
        self.watcher.reached(ApplyStep::PathWritten);
        let aside = self.temporary_name(number);
        let placed = match change.old {
            None => move_if_free(folder.as_fd(), aside.as_bytes(), name),
            Some(_) => match swap_names(folder.as_fd(), &aside, name) {
                Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                    self.replace(folder.as_fd(), number, change)
                }
                outcome => outcome,
            },
        };
        let reason = match placed {
            Ok(()) => None,
            // Another program created or removed the path after it was checked.
            Err(Errno::EXIST) => Some(ConflictReason::Untracked),
            Err(Errno::NOENT) => Some(ConflictReason::Changed),
            Err(error) => return Err(explain(error)),
        };
        if let Some(reason) = reason {
            self.unlink(&self.temporary_path(number, path))?;
            return Ok(PathWriteOutcome::Conflict(reason));
        }
        self.watcher.reached(ApplyStep::PathSwapped);
        // Check the content that was swapped out. Unexpected content is swapped back.
        if let Some(reason) = self.clean_up_temporary(number, change)? {
            return Ok(PathWriteOutcome::Conflict(reason));
        }
        if sync == Sync::Yes {
            fsync(&folder).map_err(explain)?;
        }
        self.watcher.reached(ApplyStep::PathSettled);
        Ok(PathWriteOutcome::Done)
    }

    /// Fallback if the file system cannot swap two files: checks once more, then replaces.
    /// Not atomic: an edit between check and rename is lost.
    fn replace(
        &self,
        folder: BorrowedFd<'_>,
        number: usize,
        change: &PathChange,
    ) -> Result<(), Errno> {
        let (_, name) = split(change.path.as_bytes());
        match self.inspector.change_state(change) {
            Ok(PathChangeState::Old) => {
                let aside = self.temporary_name(number);
                renameat(folder, aside.as_str(), folder, path_from_bytes(name))
            }
            _ => Err(Errno::NOENT),
        }
    }

    /// Returns the target of the new link, or `None` if the new content is a file.
    fn link_target(&self, path: &[u8]) -> SandboxResult<Option<CString>> {
        let target = with_parent(self.source.as_fd(), path, |folder, name| {
            readlinkat(folder, path_from_bytes(name), Vec::new())
        });
        match target {
            Ok(target) => Ok(Some(target)),
            Err(Errno::INVAL) => Ok(None),
            Err(error) => Err(errno_error(path_from_bytes(path), error)),
        }
    }

    /// Writes the new content under the temporary name, complete and synced. A draft of this call is
    /// already both.
    fn write_temporary(
        &self,
        folder: BorrowedFd<'_>,
        number: usize,
        change: &PathChange,
        new: &PathState,
    ) -> SandboxResult<()> {
        let path = change.path.as_bytes();
        let explain = |error| errno_error(path_from_bytes(path), error);
        let aside = self.temporary_name(number);
        if let Some(target) = self.link_target(path)? {
            return symlinkat(target.as_c_str(), folder, aside.as_str()).map_err(explain);
        }
        let part = [aside.as_bytes(), PART_SUFFIX].concat();
        let part = path_from_bytes(&part);
        if statat(folder, part, AtFlags::SYMLINK_NOFOLLOW).is_err() {
            let file = self.write_part(folder, number, change, new)?;
            file.sync_all().map_err(io_failed(path_from_bytes(path)))?;
        }
        renameat(folder, part, folder, aside.as_str()).map_err(explain)
    }

    /// Writes under the `.part` name first, so a file with the temporary name is always complete.
    fn write_part(
        &self,
        folder: BorrowedFd<'_>,
        number: usize,
        change: &PathChange,
        new: &PathState,
    ) -> SandboxResult<File> {
        let path = change.path.as_bytes();
        let explain = |error| errno_error(path_from_bytes(path), error);
        let part = [self.temporary_name(number).as_bytes(), PART_SUFFIX].concat();
        let mode = if new.mode == EXECUTABLE {
            Mode::from_raw_mode(0o777)
        } else {
            Mode::from_raw_mode(0o666)
        };
        // A file or link that another program placed under this name is never written through.
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let file = openat(
            folder,
            path_from_bytes(&part),
            flags | OFlags::CLOEXEC,
            mode,
        );
        let file = File::from(file.map_err(explain)?);
        let source = open_file(self.source.as_fd(), path).map_err(explain)?;
        let hash = copy(source, &file).map_err(io_failed(path_from_bytes(path)))?;
        // The staged file may have been damaged since its hash was recorded.
        let expected = new.content.as_ref().map(|content| content.hash.as_str());
        if expected != Some(hash.as_str()) {
            return Err(SandboxError::Malformed {
                what: format!("the staged content of {} is damaged", change.path),
            });
        }
        // An existing file keeps its permissions, except for the executable bits, which git tracks.
        let stat = stat_at(self.inspector.root(), path);
        if let Some(stat) = stat.ok().filter(|it| it.kind() == FileType::RegularFile) {
            let mode = permissions(stat.mode, new.mode == EXECUTABLE);
            let set = file.set_permissions(mode);
            set.map_err(io_failed(path_from_bytes(path)))?;
        }
        Ok(file)
    }

    fn remove_path(
        &self,
        number: usize,
        change: &PathChange,
        sync: Sync,
    ) -> SandboxResult<PathWriteOutcome> {
        let path = change.path.as_bytes();
        let explain = |error| errno_error(path_from_bytes(path), error);
        let aside = self.temporary_name(number);
        let moved = self.with_parent(path, |folder, name| {
            move_if_free(folder, name, aside.as_bytes())
        });
        match moved {
            Ok(()) => {}
            // Another program has removed it, which is all that the change wanted.
            Err(Errno::NOENT) => return Ok(PathWriteOutcome::Done),
            Err(error) => return Err(explain(error)),
        }
        self.watcher.reached(ApplyStep::PathSwapped);
        if let Some(reason) = self.clean_up_temporary(number, change)? {
            return Ok(PathWriteOutcome::Conflict(reason));
        }
        if sync == Sync::Yes {
            let synced = self.with_parent(path, |folder, _| fsync(folder));
            synced.map_err(explain)?;
        }
        self.remove_empty_parents(path);
        self.watcher.reached(ApplyStep::PathSettled);
        Ok(PathWriteOutcome::Done)
    }

    /// Removes the empty folders around a missing path, if the apply created them.
    pub(crate) fn remove_own_parents(&self, path: &[u8]) {
        if self.own_folders.is_some() {
            self.remove_empty_parents(path);
        }
    }

    /// Like git, removes folders that lost their last file.
    fn remove_empty_parents(&self, path: &[u8]) {
        let mut folder = split(path).0;
        while !folder.is_empty() {
            let own = self.own_folders.as_ref();
            if own.is_some_and(|own| !own.contains(folder)) {
                return;
            }
            let removed = self.with_parent(folder, |parent, name| {
                unlinkat(parent, path_from_bytes(name), AtFlags::REMOVEDIR)
            });
            match removed {
                Ok(()) | Err(Errno::NOENT) => folder = split(folder).0,
                // Not empty, or not a folder: it is not ours to remove.
                Err(_) => return,
            }
        }
    }

    fn with_parent<T>(
        &self,
        path: &[u8],
        work: impl FnOnce(BorrowedFd<'_>, &[u8]) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        with_parent(self.inspector.root(), path, work)
    }

    fn unlink(&self, path: &[u8]) -> SandboxResult<()> {
        let unlinked = self.with_parent(path, |folder, name| {
            unlinkat(folder, path_from_bytes(name), AtFlags::empty())
        });
        match unlinked {
            // Below something that is not a folder there can be nothing of ours.
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
            Err(error) => Err(errno_error(path_from_bytes(path), error)),
        }
    }
}

/// Atomically swaps two names of one folder.
fn swap_names(folder: BorrowedFd<'_>, aside: &str, name: &[u8]) -> Result<(), Errno> {
    renameat_with(
        folder,
        aside,
        folder,
        path_from_bytes(name),
        RenameFlags::EXCHANGE,
    )
}

/// Renames to a name that must not exist. If the file system cannot do that atomically, checks first.
fn move_if_free(folder: BorrowedFd<'_>, from: &[u8], to: &[u8]) -> Result<(), Errno> {
    let (from, to) = (path_from_bytes(from), path_from_bytes(to));
    match renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            match statat(folder, to, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => renameat(folder, from, folder, to),
                Err(error) => Err(error),
                Ok(_) => Err(Errno::EXIST),
            }
        }
        moved => moved,
    }
}

/// Removes `name` if it is a folder that contains no files. Returns whether the name is free
/// afterwards.
fn remove_empty(parent: BorrowedFd<'_>, name: &[u8]) -> bool {
    let Ok(folder) = open_folder(parent, name) else {
        return true;
    };
    if let Ok(entries) = rustix::fs::Dir::read_from(&folder) {
        for entry in entries.flatten() {
            let inner = entry.file_name().to_bytes();
            if !matches!(inner, b"." | b"..") && open_folder(folder.as_fd(), inner).is_ok() {
                remove_empty(folder.as_fd(), inner);
            }
        }
    }
    unlinkat(parent, path_from_bytes(name), AtFlags::REMOVEDIR).is_ok()
}

fn copy(mut from: File, mut to: &File) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match io::Read::read(&mut from, &mut buffer)? {
            0 => return Ok(hasher.finalize().to_hex().to_string()),
            got => {
                hasher.update(&buffer[..got]);
                io::Write::write_all(&mut to, &buffer[..got])?;
            }
        }
    }
}

/// Returns the old permissions, made executable for all users who may read the file, or for none.
fn permissions(old: u32, is_executable: bool) -> Permissions {
    let old = old & 0o777;
    Permissions::from_mode(if !is_executable {
        old & !0o111
    } else if old & 0o111 != 0 {
        old
    } else {
        old | ((old & 0o444) >> 2)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_kept_except_executable() {
        for (old, is_executable, expected) in [
            (0o100_640, true, 0o750),
            (0o100_755, false, 0o644),
            (0o100_600, false, 0o600),
            (0o100_710, true, 0o710),
        ] {
            let mode = permissions(old, is_executable).mode();
            assert_eq!(mode, expected, "{old:o}");
        }
    }
}

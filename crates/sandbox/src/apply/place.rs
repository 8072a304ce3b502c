//! One path of the user's, from its old state to its new one, by compare-and-swap.
//!
//! The new content is written beside the path under a name of ours and then exchanged with what is
//! there in one step. Only afterwards is looked at what came out: if it is not what was expected,
//! it is exchanged back. So nothing foreign is lost even if it came in the last moment, and a kill
//! at any point leaves both contents on disk under names that say which is which. What is beside a
//! path is settled before anything else is done with it (law 9).

use std::ffi::CString;
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cleveragents_domain::id::ApplyId;
use cleveragents_engine::ports::sandbox::{SandboxError, SandboxResult};
use cleveragents_engine::ports::targets::{ConflictReason, PathChange, PathState};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, fsync, openat, readlinkat, renameat,
    renameat_with, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use crate::apply::forbidden::is_gitlink;
use crate::apply::staging::sync_all;
use crate::apply::standing::{Eye, Found, Standing};
use crate::apply::steps::{ApplyStep, Watcher};
use crate::beneath::{failed, in_folder, open_file, open_folder, open_root, stat_beneath};
use crate::entries::EXECUTABLE;
use crate::files::{Sync, failed as io_failed, path_of};
use cleveragents_beneath::reach::{make_folder, split};

/// What the name of a file ends in that is being written.
const PART: &[u8] = b".part";

/// What became of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Placed {
    Done,
    Foreign(ConflictReason),
}

/// Puts new contents in place below one folder.
#[derive(Debug)]
pub(crate) struct Placer<'a> {
    pub(crate) eye: &'a Eye<'a>,
    /// Where the new files lie ready.
    source: OwnedFd,
    id: ApplyId,
    watcher: &'a dyn Watcher,
}

impl<'a> Placer<'a> {
    pub(crate) fn new(
        eye: &'a Eye<'a>,
        source: &Path,
        id: ApplyId,
        watcher: &'a dyn Watcher,
    ) -> SandboxResult<Self> {
        Ok(Self {
            eye,
            source: open_root(source)?,
            id,
            watcher,
        })
    }

    /// Makes a path what it is to be, once what was left beside it is settled. `number` tells the
    /// changes of one apply apart. Who does not let it be synced does so for all paths together.
    pub(crate) fn put(
        &self,
        number: usize,
        change: &PathChange,
        sync: Sync,
    ) -> SandboxResult<Placed> {
        let standing = self.eye.standing(change)?;
        let is_foreign = matches!(standing, Standing::Foreign(_));
        if !is_foreign && is_gitlink(change.old.as_ref().or(change.new.as_ref())) {
            return self.put_submodule(change, sync);
        }
        match (standing, &change.new) {
            (Standing::New, Some(_)) => Ok(Placed::Done),
            (Standing::New, None) => {
                self.remove_folders_around(change.path.as_bytes());
                Ok(Placed::Done)
            }
            (Standing::Foreign(reason), _) => Ok(Placed::Foreign(reason)),
            (Standing::Old, Some(new)) => self.write(number, (change, new), sync),
            (Standing::Old, None) => self.take_away(number, change, sync),
        }
    }

    /// As git does it: the folder of a submodule that comes is made, and that of one that goes is
    /// removed if it is empty. Files in it are never touched.
    fn put_submodule(&self, change: &PathChange, sync: Sync) -> SandboxResult<Placed> {
        let path = change.path.as_bytes();
        let explain = |error| failed(path_of(path), error);
        if change.new.is_some() {
            match make_folder(self.eye.root(), path) {
                Ok(_) => {}
                Err(Errno::NOTDIR | Errno::LOOP) => {
                    return Ok(Placed::Foreign(ConflictReason::Untracked));
                }
                Err(error) => return Err(explain(error)),
            }
        } else {
            let removed = self.between(path, |folder, name| {
                unlinkat(folder, path_of(name), AtFlags::REMOVEDIR)
            });
            match removed {
                Ok(()) => self.remove_folders_around(path),
                Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => return Ok(Placed::Done),
                Err(Errno::NOTDIR | Errno::LOOP) => return Ok(Placed::Done),
                Err(error) => return Err(explain(error)),
            }
        }
        if sync == Sync::Yes {
            sync_all(self.eye.root())?;
        }
        self.watcher.reached(ApplyStep::PathSettled);
        Ok(Placed::Done)
    }

    /// Writes the new content of a path beside it, under a name for what is not whole yet, so that
    /// many can be synced together. Where that cannot be done, [`Self::put`] says why.
    pub(crate) fn draft(
        &self,
        number: usize,
        change: &PathChange,
        sync: Sync,
    ) -> SandboxResult<()> {
        let path = change.path.as_bytes();
        if is_gitlink(change.new.as_ref()) {
            return Ok(());
        }
        let (Some(new), Ok(folder)) = (&change.new, make_folder(self.eye.root(), split(path).0))
        else {
            return Ok(());
        };
        if self.link_target(path)?.is_none() {
            let file = self.write_part(folder.as_fd(), number, change, new)?;
            if sync == Sync::Yes {
                file.sync_all().map_err(io_failed(path_of(path)))?;
            }
            self.watcher.reached(ApplyStep::PathDrafted);
        }
        Ok(())
    }

    /// Removes a draft that is not going to be used, and the folders made for it.
    pub(crate) fn sweep(&self, number: usize, change: &PathChange) -> SandboxResult<()> {
        let path = change.path.as_bytes();
        self.unlink(&[&self.aside_path(number, path), PART].concat())?;
        if change.old.is_none() {
            self.remove_folders_around(path);
        }
        Ok(())
    }

    /// The name of ours beside a path.
    fn aside(&self, number: usize) -> String {
        format!(".agents-{}-{number}", self.id)
    }

    fn aside_path(&self, number: usize, path: &[u8]) -> Vec<u8> {
        let (folder, _) = split(path);
        let name = self.aside(number);
        match folder.is_empty() {
            true => name.into_bytes(),
            false => [folder, b"/", name.as_bytes()].concat(),
        }
    }

    /// Clears up what a killed call left beside a path; why the path cannot be gone on with.
    pub(crate) fn settle(
        &self,
        number: usize,
        change: &PathChange,
    ) -> SandboxResult<Option<ConflictReason>> {
        let aside = self.aside_path(number, change.path.as_bytes());
        self.unlink(&[&aside, PART].concat())?;
        self.settle_aside(number, change)
    }

    /// Decides what becomes of the content beside a path.
    fn settle_aside(
        &self,
        number: usize,
        change: &PathChange,
    ) -> SandboxResult<Option<ConflictReason>> {
        let path = change.path.as_bytes();
        let aside = self.aside_path(number, path);
        let found = self.eye.look(&aside)?;
        if matches!(found, Found::Nothing | Found::Covered | Found::BehindLink) {
            return Ok(None);
        }
        let is_new = change.new.is_some() && self.eye.is(change.new.as_ref(), &found);
        if is_new || self.eye.is_old(change, &found, &aside)? {
            self.unlink(&aside)?;
            return Ok(None);
        }
        // Somebody's content came out in the last moment: it goes back, unless more has happened.
        let name = self.aside(number);
        let here = self.eye.look(path)?;
        let put_back = match &change.new {
            Some(_) if self.eye.is(change.new.as_ref(), &here) => {
                self.between(path, |folder, file| exchange(folder, &name, file))
            }
            None if here == Found::Nothing => self.between(path, |folder, file| {
                move_to_free(folder, name.as_bytes(), file)
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
        (change, new): (&PathChange, &PathState),
        sync: Sync,
    ) -> SandboxResult<Placed> {
        let path = change.path.as_bytes();
        let explain = |error| failed(path_of(path), error);
        let (folder, name) = split(path);
        let folder = match make_folder(self.eye.root(), folder) {
            Ok(folder) => folder,
            Err(Errno::NOTDIR | Errno::LOOP) => {
                return Ok(Placed::Foreign(ConflictReason::BehindLink));
            }
            Err(error) => return Err(explain(error)),
        };
        if change.old.is_none() && !remove_empty(folder.as_fd(), name) {
            return Ok(Placed::Foreign(ConflictReason::Untracked));
        }
        self.write_aside(folder.as_fd(), number, change, new)?;
        self.watcher.reached(ApplyStep::PathWritten);
        let aside = self.aside(number);
        let placed = match change.old {
            None => move_to_free(folder.as_fd(), aside.as_bytes(), name),
            Some(_) => match exchange(folder.as_fd(), &aside, name) {
                Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                    self.replace(folder.as_fd(), number, change)
                }
                outcome => outcome,
            },
        };
        let reason = match placed {
            Ok(()) => None,
            Err(Errno::EXIST) => Some(ConflictReason::Untracked),
            Err(Errno::NOENT) => Some(ConflictReason::Changed),
            Err(error) => return Err(explain(error)),
        };
        if let Some(reason) = reason {
            self.unlink(&self.aside_path(number, path))?;
            return Ok(Placed::Foreign(reason));
        }
        self.watcher.reached(ApplyStep::PathSwapped);
        // What came out is looked at now; what was not expected goes back.
        if let Some(reason) = self.settle_aside(number, change)? {
            return Ok(Placed::Foreign(reason));
        }
        if sync == Sync::Yes {
            fsync(&folder).map_err(explain)?;
        }
        self.watcher.reached(ApplyStep::PathSettled);
        Ok(Placed::Done)
    }

    /// Where two files cannot change places: looked at once more, then replaced.
    fn replace(
        &self,
        folder: BorrowedFd<'_>,
        number: usize,
        change: &PathChange,
    ) -> Result<(), Errno> {
        let (_, name) = split(change.path.as_bytes());
        match self.eye.standing(change) {
            Ok(Standing::Old) => {
                let aside = self.aside(number);
                renameat(folder, aside.as_str(), folder, path_of(name))
            }
            _ => Err(Errno::NOENT),
        }
    }

    /// Where the new link points; nothing if it is to be a file.
    fn link_target(&self, path: &[u8]) -> SandboxResult<Option<CString>> {
        let target = in_folder(self.source.as_fd(), path, |folder, name| {
            readlinkat(folder, path_of(name), Vec::new())
        });
        match target {
            Ok(target) => Ok(Some(target)),
            Err(Errno::INVAL) => Ok(None),
            Err(error) => Err(failed(path_of(path), error)),
        }
    }

    /// Gives the new content our own name beside the path, complete and synced; a draft of this
    /// call is both.
    fn write_aside(
        &self,
        folder: BorrowedFd<'_>,
        number: usize,
        change: &PathChange,
        new: &PathState,
    ) -> SandboxResult<()> {
        let path = change.path.as_bytes();
        let explain = |error| failed(path_of(path), error);
        let aside = self.aside(number);
        if let Some(target) = self.link_target(path)? {
            return symlinkat(target.as_c_str(), folder, aside.as_str()).map_err(explain);
        }
        let part = [aside.as_bytes(), PART].concat();
        let part = path_of(&part);
        if statat(folder, part, AtFlags::SYMLINK_NOFOLLOW).is_err() {
            let file = self.write_part(folder, number, change, new)?;
            file.sync_all().map_err(io_failed(path_of(path)))?;
        }
        renameat(folder, part, folder, aside.as_str()).map_err(explain)
    }

    /// A file that is not whole yet has another name, so that what has ours always is.
    fn write_part(
        &self,
        folder: BorrowedFd<'_>,
        number: usize,
        change: &PathChange,
        new: &PathState,
    ) -> SandboxResult<File> {
        let path = change.path.as_bytes();
        let explain = |error| failed(path_of(path), error);
        let part = [self.aside(number).as_bytes(), PART].concat();
        let mode = match new.mode == EXECUTABLE {
            true => Mode::from_raw_mode(0o777),
            false => Mode::from_raw_mode(0o666),
        };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let file = openat(folder, path_of(&part), flags | OFlags::CLOEXEC, mode);
        let file = File::from(file.map_err(explain)?);
        let source = open_file(self.source.as_fd(), path).map_err(explain)?;
        let hash = copy(source, &file).map_err(io_failed(path_of(path)))?;
        let expected = new.content.as_ref().map(|content| content.hash.as_str());
        if expected != Some(hash.as_str()) {
            return Err(SandboxError::Malformed {
                what: format!("what lies ready for {} is damaged", change.path),
            });
        }
        let stat = stat_beneath(self.eye.root(), path);
        if let Some(stat) = stat.ok().filter(|it| it.kind() == FileType::RegularFile) {
            let mode = permissions(stat.mode, new.mode == EXECUTABLE);
            let set = file.set_permissions(mode);
            set.map_err(io_failed(path_of(path)))?;
        }
        Ok(file)
    }

    fn take_away(&self, number: usize, change: &PathChange, sync: Sync) -> SandboxResult<Placed> {
        let path = change.path.as_bytes();
        let explain = |error| failed(path_of(path), error);
        let aside = self.aside(number);
        let moved = self.between(path, |folder, name| {
            move_to_free(folder, name, aside.as_bytes())
        });
        match moved {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(Placed::Done),
            Err(error) => return Err(explain(error)),
        }
        self.watcher.reached(ApplyStep::PathSwapped);
        if let Some(reason) = self.settle_aside(number, change)? {
            return Ok(Placed::Foreign(reason));
        }
        if sync == Sync::Yes {
            let synced = self.between(path, |folder, _| fsync(folder));
            synced.map_err(explain)?;
        }
        self.remove_folders_around(path);
        self.watcher.reached(ApplyStep::PathSettled);
        Ok(Placed::Done)
    }

    /// Folders that lost their last file go with it, as in git.
    fn remove_folders_around(&self, path: &[u8]) {
        let mut folder = split(path).0;
        while !folder.is_empty() {
            let removed = self.between(folder, |parent, name| {
                unlinkat(parent, path_of(name), AtFlags::REMOVEDIR)
            });
            match removed {
                Ok(()) | Err(Errno::NOENT) => folder = split(folder).0,
                // Not empty, or no folder: it is nothing of ours.
                Err(_) => return,
            }
        }
    }

    fn between<T>(
        &self,
        path: &[u8],
        work: impl FnOnce(BorrowedFd<'_>, &[u8]) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        in_folder(self.eye.root(), path, work)
    }

    fn unlink(&self, path: &[u8]) -> SandboxResult<()> {
        let unlinked = self.between(path, |folder, name| {
            unlinkat(folder, path_of(name), AtFlags::empty())
        });
        match unlinked {
            // Below what is no folder nothing of ours can be.
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
            Err(error) => Err(failed(path_of(path), error)),
        }
    }
}

/// Two names of one folder change places, or neither does.
fn exchange(folder: BorrowedFd<'_>, aside: &str, name: &[u8]) -> Result<(), Errno> {
    renameat_with(folder, aside, folder, path_of(name), RenameFlags::EXCHANGE)
}

/// Moves to a name that must be free. Where the file system cannot say so in one step, it is looked
/// at first.
fn move_to_free(folder: BorrowedFd<'_>, from: &[u8], to: &[u8]) -> Result<(), Errno> {
    let (from, to) = (path_of(from), path_of(to));
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

/// Removes what is at a name if it is a folder without files; whether the name is free then.
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
    unlinkat(parent, path_of(name), AtFlags::REMOVEDIR).is_ok()
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

/// The permissions a file had, made executable for those who may read it, or for nobody.
fn permissions(old: u32, is_executable: bool) -> Permissions {
    let old = old & 0o777;
    Permissions::from_mode(match is_executable {
        true if old & 0o111 != 0 => old,
        true => old | ((old & 0o444) >> 2),
        false => old & !0o111,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_kept_but_for_what_the_change_says() {
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

//! How a path of the user's stands against a change: as before it, as after it, or otherwise.

use std::collections::BTreeSet;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use cleveragents_engine::ports::sandbox::SandboxResult;
use cleveragents_engine::ports::targets::{ConflictReason, ContentHash, PathChange, PathState};
use rustix::fs::{Dir, FileType};
use rustix::io::Errno;

use crate::apply::forbidden::is_gitlink;
use crate::apply::staging::content_of;
use crate::beneath::{FileStat, open_folder, open_root, stat_beneath};
use crate::blobs;
use crate::entries::{EXECUTABLE, GITLINK, LINK, folders_around};
use crate::files::{failed, path_of};
use crate::store::PrivateStore;

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    /// Nothing, and one of the folders around it is a file.
    Covered,
    /// Nothing that may be looked at: one of the folders around it is a link.
    BehindLink,
    File(FileStat, ContentHash),
    Link(ContentHash),
    Folder,
    /// A device, a socket, a pipe.
    Other,
}

/// How a path stands against a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    Old,
    New,
    Foreign(ConflictReason),
}

/// What of a file's mode counts, by the user's settings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Modes {
    is_executable: Counts,
    is_link: Counts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counts {
    Yes,
    No,
}

impl Modes {
    pub(crate) fn of(shaping: &[(String, String)]) -> Self {
        let counts = |name: &str| {
            let setting = shaping.iter().find(|(key, _)| key == name);
            match setting.is_some_and(|(_, value)| value.eq_ignore_ascii_case("false")) {
                true => Counts::No,
                false => Counts::Yes,
            }
        };
        Self {
            is_executable: counts("core.filemode"),
            is_link: counts("core.symlinks"),
        }
    }
}

/// Looks at the files below one folder.
#[derive(Debug)]
pub(crate) struct Eye<'a> {
    root: OwnedFd,
    modes: Modes,
    /// Of the old tree's attributes, to ask whether other bytes are the same file to git.
    store: Option<&'a PrivateStore>,
    /// Paths that go.
    leaving: BTreeSet<&'a [u8]>,
    /// Submodules among them.
    leaving_submodules: BTreeSet<&'a [u8]>,
    submodule_files: SubmoduleFiles,
}

/// What files in the folder of a submodule that is removed are to the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SubmoduleFiles {
    /// They stay, and are untracked once the index has no entry of the submodule.
    Stay,
    /// The entry stays, so that with its files the submodule would not be removed at all.
    InTheWay,
}

impl<'a> Eye<'a> {
    pub(crate) fn on(
        root: &Path,
        modes: Modes,
        changes: &'a [PathChange],
        store: Option<&'a PrivateStore>,
    ) -> SandboxResult<Self> {
        let leaving = || changes.iter().filter(|change| change.new.is_none());
        let submodules = leaving().filter(|change| is_gitlink(change.old.as_ref()));
        Ok(Self {
            root: open_root(root)?,
            modes,
            store,
            leaving: leaving().map(|change| change.path.as_bytes()).collect(),
            leaving_submodules: submodules.map(|it| it.path.as_bytes()).collect(),
            submodule_files: SubmoduleFiles::Stay,
        })
    }

    /// The same for a change that leaves the index as it is.
    pub(crate) fn without_index(self) -> Self {
        Self {
            submodule_files: SubmoduleFiles::InTheWay,
            ..self
        }
    }

    pub(crate) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    pub(crate) fn look(&self, path: &[u8]) -> SandboxResult<Found> {
        let stat = match stat_beneath(self.root(), path) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(Found::Nothing),
            Err(Errno::NOTDIR | Errno::LOOP) => return Ok(self.what_covers(path)),
            Err(error) => return Err(crate::beneath::failed(path_of(path), error)),
        };
        let kind = stat.kind();
        if kind == FileType::Directory {
            return Ok(Found::Folder);
        }
        if !matches!(kind, FileType::RegularFile | FileType::Symlink) {
            return Ok(Found::Other);
        }
        let content = content_of(self.root(), path).map_err(failed(path_of(path)))?;
        Ok(match (kind, content) {
            (_, None) => Found::Nothing,
            (FileType::Symlink, Some(content)) => Found::Link(content),
            (_, Some(content)) => Found::File(stat, content),
        })
    }

    fn what_covers(&self, path: &[u8]) -> Found {
        let kind = self.cover_of(path).and_then(|cover| {
            let stat = stat_beneath(self.root(), cover).ok()?;
            Some(stat.kind())
        });
        match kind {
            Some(FileType::Symlink) => Found::BehindLink,
            _ => Found::Covered,
        }
    }

    /// The nearest thing around a path that is no folder.
    fn cover_of<'b>(&self, path: &'b [u8]) -> Option<&'b [u8]> {
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let mut around = slashes.map(|(at, _)| &path[..at]);
        around.find(|folder| {
            let stat = stat_beneath(self.root(), folder);
            stat.is_ok_and(|stat| stat.kind() != FileType::Directory)
        })
    }

    pub(crate) fn standing(&self, change: &PathChange) -> SandboxResult<Standing> {
        let path = change.path.as_bytes();
        let found = self.look(path)?;
        if found == Found::Folder && self.leaving_submodules.contains(path) {
            return Ok(match (self.is_empty(path)?, self.submodule_files) {
                (true, _) => Standing::Old,
                (false, SubmoduleFiles::Stay) => Standing::New,
                (false, SubmoduleFiles::InTheWay) => {
                    Standing::Foreign(ConflictReason::SubmoduleFiles)
                }
            });
        }
        if self.is(change.new.as_ref(), &found) {
            return Ok(Standing::New);
        }
        let is_old = match change.old {
            Some(_) => self.is_old(change, &found, path)?,
            None => self.is(None, &found),
        };
        if is_old && change.new.is_some() {
            return self.room_for(path, &found);
        }
        Ok(match is_old {
            true => Standing::Old,
            false => Standing::Foreign(reason(change, &found)),
        })
    }

    /// Whether a change may have made a path what it is. The folder of a submodule that has files is
    /// the same before and after.
    pub(crate) fn may_be_written(&self, change: &PathChange) -> SandboxResult<bool> {
        let path = change.path.as_bytes();
        let is_submodule = is_gitlink(change.old.as_ref().or(change.new.as_ref()));
        let is_same = is_submodule && self.look(path)? == Found::Folder && !self.is_empty(path)?;
        Ok(!is_same && self.standing(change)? == Standing::New)
    }

    /// Whether a path is as before and as after a change, because what differs does not count.
    pub(crate) fn is_both(&self, change: &PathChange) -> SandboxResult<bool> {
        let found = self.look(change.path.as_bytes())?;
        let (old, new) = (change.old.as_ref(), change.new.as_ref());
        Ok(self.is(old, &found) && self.is(new, &found))
    }

    /// Whether what was found is this state; no state is no file.
    pub(crate) fn is(&self, state: Option<&PathState>, found: &Found) -> bool {
        let Some(state) = state else {
            use Found::{BehindLink, Covered, Folder, Nothing};
            return matches!(found, Nothing | Covered | BehindLink | Folder);
        };
        if state.mode == GITLINK {
            // As for git, whatever is in its folder.
            return *found == Found::Folder;
        }
        let Some(expected) = &state.content else {
            return false;
        };
        match found {
            Found::Link(content) => state.mode == LINK && content == expected,
            Found::File(_, content) if state.mode == LINK => {
                self.modes.is_link == Counts::No && content == expected
            }
            Found::File(stat, content) => self.has_mode(state, stat) && content == expected,
            _ => false,
        }
    }

    fn has_mode(&self, state: &PathState, stat: &FileStat) -> bool {
        let is_executable = stat.mode & 0o100 != 0;
        let wanted = state.mode == EXECUTABLE;
        self.modes.is_executable == Counts::No || is_executable == wanted
    }

    /// Whether what was found at `at` is the old file. Other line ends can be the same file to
    /// git, and are then no change of the user's.
    pub(crate) fn is_old(
        &self,
        change: &PathChange,
        found: &Found,
        at: &[u8],
    ) -> SandboxResult<bool> {
        let Some(old) = &change.old else {
            return Ok(false);
        };
        if self.is(Some(old), found) {
            return Ok(true);
        }
        let (Some(store), Found::File(stat, _)) = (self.store, found) else {
            return Ok(false);
        };
        if matches!(old.mode, LINK | GITLINK) || !self.has_mode(old, stat) {
            return Ok(false);
        }
        let (mut file, _) = blobs::open(self.root(), at)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed(path_of(at)))?;
        let object = blobs::store_converted(store, change.path.as_bytes(), &bytes)?;
        Ok(object.to_string() == old.object)
    }

    /// Whether a file may be put where nothing of the user's is, or only what goes anyway.
    fn room_for(&self, path: &[u8], found: &Found) -> SandboxResult<Standing> {
        if self.is_in_repository(path) {
            return Ok(Standing::Foreign(ConflictReason::SubmoduleFiles));
        }
        let foreign = match found {
            Found::BehindLink | Found::Covered => {
                let cover = self.cover_of(path).unwrap_or(path);
                let reason = match found {
                    Found::BehindLink => ConflictReason::BehindLink,
                    _ => ConflictReason::Untracked,
                };
                (!self.leaving.contains(cover)).then_some(reason)
            }
            Found::Folder => {
                let all_leave = self.all_leave(path)?;
                (!all_leave).then_some(ConflictReason::Untracked)
            }
            _ => None,
        };
        Ok(foreign.map_or(Standing::Old, Standing::Foreign))
    }

    /// Whether a path lies in the folder of a submodule that is removed and whose repository, with
    /// what the user did there, stays.
    fn is_in_repository(&self, path: &[u8]) -> bool {
        folders_around(path)
            .filter(|folder| self.leaving_submodules.contains(folder))
            .any(|folder| stat_beneath(self.root(), &[folder, b"/.git"].concat()).is_ok())
    }

    fn is_empty(&self, folder: &[u8]) -> SandboxResult<bool> {
        Ok(self.names_in(folder)?.is_empty())
    }

    fn names_in(&self, folder: &[u8]) -> SandboxResult<Vec<Vec<u8>>> {
        let unreadable = |error| crate::beneath::failed(path_of(folder), error);
        let mut open = crate::beneath::reopen(self.root())?;
        for part in folder.split(|byte| *byte == b'/') {
            open = open_folder(open.as_fd(), part).map_err(unreadable)?;
        }
        let mut names = Vec::new();
        for entry in Dir::read_from(&open).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name().to_bytes();
            if !matches!(name, b"." | b"..") {
                names.push(name.to_vec());
            }
        }
        Ok(names)
    }

    /// Whether a folder holds only folders and files that go.
    fn all_leave(&self, folder: &[u8]) -> SandboxResult<bool> {
        for name in self.names_in(folder)? {
            let path = [folder, b"/", &name].concat();
            let is_folder = matches!(self.look_quickly(&path), Some(FileType::Directory));
            let leaves = match is_folder {
                true => self.all_leave(&path)?,
                false => self.leaving.contains(path.as_slice()),
            };
            if !leaves {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn look_quickly(&self, path: &[u8]) -> Option<FileType> {
        let stat = stat_beneath(self.root(), path).ok()?;
        Some(stat.kind())
    }
}

fn reason(change: &PathChange, found: &Found) -> ConflictReason {
    match (found, &change.old) {
        (Found::BehindLink, _) => ConflictReason::BehindLink,
        (_, None) => ConflictReason::Untracked,
        (_, Some(_)) => ConflictReason::Changed,
    }
}

//! Compares a path of the user with a change: in its old state, its new state, or another one.

use std::collections::BTreeSet;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use cleveragents_ports::sandbox::SandboxResult;
use cleveragents_ports::targets::{ConflictReason, ContentHash, PathChange, PathState};
use rustix::fs::{Dir, FileType};
use rustix::io::Errno;

use crate::apply::forbidden_changes::is_gitlink;
use crate::apply::staging::hash_path;
use crate::blobs;
use crate::entries::{EXECUTABLE, GITLINK, LINK, parent_folders};
use crate::files::{io_error, path_from_bytes};
use crate::safe_fs::{FileStat, open_folder, open_root, stat_at};
use crate::store::PrivateStore;

/// The entry at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PathContent {
    Nothing,
    /// Nothing, because a parent of the path is a file.
    BehindFile,
    /// Not inspected, because a parent of the path is a symbolic link.
    BehindLink,
    File(FileStat, ContentHash),
    Link(ContentHash),
    Folder,
    /// A device, socket or pipe.
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PathChangeState {
    Old,
    New,
    Foreign(ConflictReason),
}

/// Which parts of a file's mode are compared, according to the user's settings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Modes {
    is_executable: ModeComparison,
    is_link: ModeComparison,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ModeComparison {
    Yes,
    No,
}

impl Modes {
    pub(crate) fn from_settings(shaping: &[(String, String)]) -> Self {
        let counts = |name: &str| {
            let setting = shaping.iter().find(|(key, _)| key == name);
            if setting.is_some_and(|(_, value)| value.eq_ignore_ascii_case("false")) {
                ModeComparison::No
            } else {
                ModeComparison::Yes
            }
        };
        Self {
            is_executable: counts("core.filemode"),
            is_link: counts("core.symlinks"),
        }
    }
}

/// Inspects the files below one folder.
#[derive(Debug)]
pub(crate) struct PathInspector<'a> {
    root: OwnedFd,
    modes: Modes,
    /// Has the attributes of the old tree. Used to ask whether other bytes are the same file to git.
    store: Option<&'a PrivateStore>,
    /// Paths that the change removes.
    removed: BTreeSet<&'a [u8]>,
    removed_submodules: BTreeSet<&'a [u8]>,
    submodule_files: SubmoduleFiles,
}

/// Treatment of files in the folder of a removed submodule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SubmoduleFiles {
    /// They stay and become untracked when the index entry is removed.
    Stay,
    /// They conflict: the index entry stays, so with its files the submodule would not be removed.
    Conflicting,
}

impl<'a> PathInspector<'a> {
    pub(crate) fn new(
        root: &Path,
        modes: Modes,
        changes: &'a [PathChange],
        store: Option<&'a PrivateStore>,
    ) -> SandboxResult<Self> {
        let removals = || changes.iter().filter(|change| change.new.is_none());
        let submodules = removals().filter(|change| is_gitlink(change.old.as_ref()));
        Ok(Self {
            root: open_root(root)?,
            modes,
            store,
            removed: removals().map(|change| change.path.as_bytes()).collect(),
            removed_submodules: submodules.map(|it| it.path.as_bytes()).collect(),
            submodule_files: SubmoduleFiles::Stay,
        })
    }

    /// For a change that does not touch the index.
    pub(crate) fn without_index(self) -> Self {
        Self {
            submodule_files: SubmoduleFiles::Conflicting,
            ..self
        }
    }

    pub(crate) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    pub(crate) fn inspect(&self, path: &[u8]) -> SandboxResult<PathContent> {
        let stat = match stat_at(self.root(), path) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(PathContent::Nothing),
            Err(Errno::NOTDIR | Errno::LOOP) => return Ok(self.inspect_parents(path)),
            Err(error) => return Err(crate::safe_fs::errno_error(path_from_bytes(path), error)),
        };
        let kind = stat.kind();
        if kind == FileType::Directory {
            return Ok(PathContent::Folder);
        }
        if !matches!(kind, FileType::RegularFile | FileType::Symlink) {
            return Ok(PathContent::Other);
        }
        let content = hash_path(self.root(), path).map_err(io_error(path_from_bytes(path)))?;
        Ok(match (kind, content) {
            (_, None) => PathContent::Nothing,
            (FileType::Symlink, Some(content)) => PathContent::Link(content),
            (_, Some(content)) => PathContent::File(stat, content),
        })
    }

    fn inspect_parents(&self, path: &[u8]) -> PathContent {
        let kind = self.blocking_parent(path).and_then(|cover| {
            let stat = stat_at(self.root(), cover).ok()?;
            Some(stat.kind())
        });
        match kind {
            Some(FileType::Symlink) => PathContent::BehindLink,
            _ => PathContent::BehindFile,
        }
    }

    /// Returns the nearest parent of a path that exists and is not a folder.
    fn blocking_parent<'b>(&self, path: &'b [u8]) -> Option<&'b [u8]> {
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let mut around = slashes.map(|(at, _)| &path[..at]);
        around.find(|folder| {
            let stat = stat_at(self.root(), folder);
            stat.is_ok_and(|stat| stat.kind() != FileType::Directory)
        })
    }

    pub(crate) fn change_state(&self, change: &PathChange) -> SandboxResult<PathChangeState> {
        let path = change.path.as_bytes();
        let found = self.inspect(path)?;
        if found == PathContent::Folder && self.removed_submodules.contains(path) {
            return Ok(match (self.is_empty(path)?, self.submodule_files) {
                (true, _) => PathChangeState::Old,
                (false, SubmoduleFiles::Stay) => PathChangeState::New,
                (false, SubmoduleFiles::Conflicting) => {
                    PathChangeState::Foreign(ConflictReason::SubmoduleFiles)
                }
            });
        }
        if self.matches(change.new.as_ref(), &found) {
            return Ok(PathChangeState::New);
        }
        let is_old = match change.old {
            Some(_) => self.is_old(change, &found, path)?,
            None => self.matches(None, &found),
        };
        if is_old && change.new.is_some() {
            return self.check_room(path, &found);
        }
        Ok(if is_old {
            PathChangeState::Old
        } else {
            PathChangeState::Foreign(conflict_reason(change, &found))
        })
    }

    /// Returns whether the change may have written the path's current state. The folder of a
    /// submodule that has files looks the same before and after the change.
    pub(crate) fn may_be_written(&self, change: &PathChange) -> SandboxResult<bool> {
        let path = change.path.as_bytes();
        let is_submodule = is_gitlink(change.old.as_ref().or(change.new.as_ref()));
        let is_same =
            is_submodule && self.inspect(path)? == PathContent::Folder && !self.is_empty(path)?;
        Ok(!is_same && self.change_state(change)? == PathChangeState::New)
    }

    /// Returns whether a path is in both the old and the new state, because the difference is
    /// ignored.
    pub(crate) fn matches_both(&self, change: &PathChange) -> SandboxResult<bool> {
        let found = self.inspect(change.path.as_bytes())?;
        let (old, new) = (change.old.as_ref(), change.new.as_ref());
        Ok(self.matches(old, &found) && self.matches(new, &found))
    }

    /// Returns whether `found` is this state; `None` means no file.
    pub(crate) fn matches(&self, state: Option<&PathState>, found: &PathContent) -> bool {
        let Some(state) = state else {
            use PathContent::{BehindFile, BehindLink, Folder, Nothing};
            return matches!(found, Nothing | BehindFile | BehindLink | Folder);
        };
        if state.mode == GITLINK {
            // As in git, the content of the submodule's folder does not matter.
            return *found == PathContent::Folder;
        }
        let Some(expected) = &state.content else {
            return false;
        };
        match found {
            PathContent::Link(content) => state.mode == LINK && content == expected,
            PathContent::File(_, content) if state.mode == LINK => {
                self.modes.is_link == ModeComparison::No && content == expected
            }
            PathContent::File(stat, content) => self.has_mode(state, stat) && content == expected,
            _ => false,
        }
    }

    fn has_mode(&self, state: &PathState, stat: &FileStat) -> bool {
        let is_executable = stat.mode & 0o100 != 0;
        let expected = state.mode == EXECUTABLE;
        self.modes.is_executable == ModeComparison::No || is_executable == expected
    }

    /// Returns whether the content found at `at` is the old file. Git may treat other line endings
    /// as the same file; then the user has not changed it.
    pub(crate) fn is_old(
        &self,
        change: &PathChange,
        found: &PathContent,
        at: &[u8],
    ) -> SandboxResult<bool> {
        let Some(old) = &change.old else {
            return Ok(false);
        };
        if self.matches(Some(old), found) {
            return Ok(true);
        }
        // The committed file is another one: the user has undone the edits.
        if change.keeps_edits {
            return Ok(false);
        }
        let (Some(store), PathContent::File(stat, _)) = (self.store, found) else {
            return Ok(false);
        };
        if matches!(old.mode, LINK | GITLINK) || !self.has_mode(old, stat) {
            return Ok(false);
        }
        let (mut file, _) = blobs::open(self.root(), at)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)
            .map_err(io_error(path_from_bytes(at)))?;
        let object = blobs::store_converted(store, change.path.as_bytes(), &bytes)?;
        Ok(object.to_string() == old.object)
    }

    /// Checks that a new file would replace nothing of the user's, except paths that are removed
    /// anyway.
    fn check_room(&self, path: &[u8], found: &PathContent) -> SandboxResult<PathChangeState> {
        if self.is_in_repository(path) {
            return Ok(PathChangeState::Foreign(ConflictReason::SubmoduleFiles));
        }
        let foreign = match found {
            PathContent::BehindLink | PathContent::BehindFile => {
                let cover = self.blocking_parent(path).unwrap_or(path);
                let reason = match found {
                    PathContent::BehindLink => ConflictReason::BehindLink,
                    _ => ConflictReason::Untracked,
                };
                (!self.removed.contains(cover)).then_some(reason)
            }
            PathContent::Folder => {
                let all_leave = self.all_removed(path)?;
                (!all_leave).then_some(ConflictReason::Untracked)
            }
            _ => None,
        };
        Ok(foreign.map_or(PathChangeState::Old, PathChangeState::Foreign))
    }

    /// Returns whether a path is in the folder of a removed submodule whose repository, with the
    /// user's work in it, stays.
    fn is_in_repository(&self, path: &[u8]) -> bool {
        parent_folders(path)
            .filter(|folder| self.removed_submodules.contains(folder))
            .any(|folder| stat_at(self.root(), &[folder, b"/.git"].concat()).is_ok())
    }

    fn is_empty(&self, folder: &[u8]) -> SandboxResult<bool> {
        Ok(self.names_in(folder)?.is_empty())
    }

    fn names_in(&self, folder: &[u8]) -> SandboxResult<Vec<Vec<u8>>> {
        let unreadable = |error| crate::safe_fs::errno_error(path_from_bytes(folder), error);
        let mut open = crate::safe_fs::reopen(self.root())?;
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

    /// Returns whether a folder contains only folders and files that the change removes.
    fn all_removed(&self, folder: &[u8]) -> SandboxResult<bool> {
        for name in self.names_in(folder)? {
            let path = [folder, b"/", &name].concat();
            let is_folder = matches!(self.file_type(&path), Some(FileType::Directory));
            let leaves = if is_folder {
                self.all_removed(&path)?
            } else {
                self.removed.contains(path.as_slice())
            };
            if !leaves {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn file_type(&self, path: &[u8]) -> Option<FileType> {
        let stat = stat_at(self.root(), path).ok()?;
        Some(stat.kind())
    }
}

fn conflict_reason(change: &PathChange, found: &PathContent) -> ConflictReason {
    match (found, &change.old) {
        (PathContent::BehindLink, _) => ConflictReason::BehindLink,
        (_, None) => ConflictReason::Untracked,
        (_, Some(_)) => ConflictReason::Changed,
    }
}

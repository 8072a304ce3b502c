//! Walks a tree that an agent wrote, by open folders and never through a link.
//!
//! Only `.gitignore` is obeyed: attributes, configuration and hooks are treated as plain files.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use cleveragents_ports::sandbox::{OmissionReason, SandboxError, SandboxResult};
use cleveragents_ports::stop::StopSignal;
use cleveragents_safe_fs::ignore_rules::{IgnoreEntryKind, IgnoreRules, read_gitignore};
use cleveragents_safe_fs::refused_names::{is_dot_git, is_refused_name};
use rustix::fs::{AtFlags, Dir, FileType, statat};
use rustix::io::Errno;

use crate::files::path_from_bytes;
use crate::limits::CaptureLimits;
use crate::safe_fs::{FileStat, errno_error, open_folder, open_root, reopen};
use crate::temporary_names::is_temporary_name;

/// Maximum nesting of folders: each level of the walk keeps one open.
const MAX_DEPTH: usize = 200;

/// The entry of the previous tree at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrackedKind {
    Untracked,
    File,
    Submodule,
}

/// The previous tree, as far as a walk needs it.
pub(crate) trait TrackedPaths {
    fn tracked_kind(&self, path: &[u8]) -> TrackedKind;
    /// Returns whether any path is in this folder.
    fn has_paths_in(&self, folder: &[u8]) -> bool;
}

#[derive(Debug, Default)]
pub(crate) struct WalkResult {
    pub(crate) files: BTreeMap<Vec<u8>, FileStat>,
    pub(crate) empty_directories: BTreeSet<Vec<u8>>,
    pub(crate) omitted: BTreeSet<(Vec<u8>, OmissionReason)>,
    /// Submodules whose folder still exists, whatever its content.
    pub(crate) submodules: BTreeSet<Vec<u8>>,
    /// Ignored files and folders, only the outermost.
    pub(crate) ignored: Vec<Vec<u8>>,
    /// Places that could not be read: the previous entries are kept there.
    pub(crate) unreadable: Vec<Vec<u8>>,
    /// Paths whose content was walked completely.
    pub(crate) scopes: Vec<Vec<u8>>,
}

/// Whether untracked files count in the current folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    All,
    /// Inside an ignored folder.
    TrackedOnly,
}

/// Whether a folder contains something, so that it is not an empty directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FolderPresence {
    Nothing,
    Something,
}

/// The current folder of the walk, its rules and its reach.
#[derive(Clone, Copy)]
struct SandboxWalkFolder<'a> {
    folder: BorrowedFd<'a>,
    path: &'a [u8],
    rules: &'a IgnoreRules<'a>,
    reach: Reach,
    depth: usize,
}

impl SandboxWalkFolder<'_> {
    fn join(&self, name: &[u8]) -> Vec<u8> {
        if self.path.is_empty() {
            name.to_vec()
        } else {
            [self.path, name].join(&b'/')
        }
    }
}

pub(crate) struct SandboxWalker<'a> {
    tracked: &'a dyn TrackedPaths,
    root: OwnedFd,
    rules: &'a IgnoreRules<'a>,
    stop: StopSignal,
    limits: CaptureLimits,
    /// Number of paths found that the previous tree does not have.
    new_paths: u64,
    pub(crate) result: WalkResult,
}

impl<'a> SandboxWalker<'a> {
    pub(crate) fn new(
        root: &Path,
        rules: &'a IgnoreRules<'a>,
        tracked: &'a dyn TrackedPaths,
    ) -> SandboxResult<Self> {
        Ok(Self {
            tracked,
            root: open_root(root)?,
            rules,
            stop: StopSignal::new(),
            limits: CaptureLimits::NONE,
            new_paths: 0,
            result: WalkResult::default(),
        })
    }

    /// Makes the walk fail when `stop` is signalled or when it finds more than `limits` allow.
    pub(crate) fn bounded(mut self, stop: &StopSignal, limits: CaptureLimits) -> Self {
        self.stop = stop.clone();
        self.limits = limits;
        self
    }

    pub(crate) fn walk_all(&mut self) -> SandboxResult<()> {
        self.result.scopes.push(Vec::new());
        self.with_root(|walker, folder_at| walker.walk_folder(folder_at).map(drop))
    }

    /// Walks one path with its content.
    pub(crate) fn walk_path(&mut self, path: &[u8]) -> SandboxResult<()> {
        self.with_root(|walker, folder_at| walker.descend(folder_at, path))
    }

    /// Returns whether `path` is a folder whose subfolders, if any, are all ignored.
    pub(crate) fn is_leaf(&mut self, path: &[u8]) -> SandboxResult<bool> {
        let mut probe = SandboxWalker {
            tracked: self.tracked,
            root: reopen(self.root.as_fd())?,
            rules: self.rules,
            stop: self.stop.clone(),
            limits: self.limits,
            new_paths: 0,
            result: WalkResult::default(),
        };
        probe.walk_path(path)?;
        Ok(probe.result.empty_directories.contains(path))
    }

    /// Returns whether the rules of this tree ignore `path`, whether or not it exists.
    pub(crate) fn would_ignore(
        &mut self,
        path: &[u8],
        entry: IgnoreEntryKind,
    ) -> SandboxResult<bool> {
        self.with_root(|_, folder_at| Ok(is_ignored_at(folder_at, path, entry)))
    }

    fn with_root<T>(
        &mut self,
        work: impl FnOnce(&mut Self, SandboxWalkFolder<'_>) -> SandboxResult<T>,
    ) -> SandboxResult<T> {
        let folder = reopen(self.root.as_fd())?;
        let content = read_gitignore(folder.as_fd());
        let rules = self.rules.for_folder(b"", &content);
        let folder_at = SandboxWalkFolder {
            folder: folder.as_fd(),
            path: b"",
            rules: &rules,
            reach: Reach::All,
            depth: 0,
        };
        work(self, folder_at)
    }

    /// Descends towards `path`. If something other than a folder is in the way, inspects that
    /// instead.
    fn descend(&mut self, folder_at: SandboxWalkFolder<'_>, path: &[u8]) -> SandboxResult<()> {
        let rest = &path[folder_at.path.len()..];
        let rest = rest.strip_prefix(b"/").unwrap_or(rest);
        let name = rest.split(|byte| *byte == b'/').next().unwrap_or(rest);
        let here = folder_at.join(name);
        let is_last = here.len() == path.len();
        let stat = stat_of(folder_at.folder, name, &here)?;
        let is_folder = stat.is_some_and(|stat| stat.kind() == FileType::Directory);
        let is_submodule = self.tracked.tracked_kind(&here) == TrackedKind::Submodule;
        if is_last || !is_folder || is_submodule || is_dot_git(name) {
            self.walk_entry(folder_at, name)?;
            self.result.scopes.push(here);
            return Ok(());
        }
        let ignored = folder_at
            .rules
            .is_ignored(&here, IgnoreEntryKind::Directory);
        let reach = if ignored {
            Reach::TrackedOnly
        } else {
            folder_at.reach
        };
        match open_folder(folder_at.folder, name) {
            Ok(folder) => {
                let content = read_gitignore(folder.as_fd());
                let rules = folder_at.rules.for_folder(&here, &content);
                let inner = SandboxWalkFolder {
                    folder: folder.as_fd(),
                    path: &here,
                    rules: &rules,
                    reach,
                    depth: folder_at.depth + 1,
                };
                self.descend(inner, path)
            }
            Err(_) => {
                self.add_unreadable(here.clone(), OmissionReason::Unreadable)?;
                self.result.scopes.push(here);
                Ok(())
            }
        }
    }

    fn walk_folder(&mut self, folder_at: SandboxWalkFolder<'_>) -> SandboxResult<FolderPresence> {
        let mut presence = FolderPresence::Nothing;
        for name in self.names_in(folder_at)? {
            if self.walk_entry(folder_at, &name)? == FolderPresence::Something {
                presence = FolderPresence::Something;
            }
        }
        Ok(presence)
    }

    fn walk_entry(
        &mut self,
        folder_at: SandboxWalkFolder<'_>,
        name: &[u8],
    ) -> SandboxResult<FolderPresence> {
        self.check_stop()?;
        let path = folder_at.join(name);
        let Some(stat) = stat_of(folder_at.folder, name, &path)? else {
            return Ok(FolderPresence::Nothing);
        };
        if is_dot_git(name) {
            // The `.git` at the root belongs to the sandbox or to the resource; it is never
            // content.
            if path != b".git" && folder_at.reach == Reach::All {
                let why = if name == b".git" {
                    OmissionReason::NestedRepository
                } else {
                    OmissionReason::Name
                };
                self.omit(path, why)?;
            }
            return Ok(FolderPresence::Nothing);
        }
        let known = self.tracked.tracked_kind(&path);
        if known == TrackedKind::Submodule {
            self.result.submodules.insert(path.clone());
            self.check_submodule(folder_at, name, path, stat)?;
            return Ok(FolderPresence::Something);
        }
        match stat.kind() {
            FileType::Directory => self.walk_directory(folder_at, name, path),
            FileType::RegularFile | FileType::Symlink => {
                let untracked = known == TrackedKind::Untracked;
                // Another plan may just be applied to this folder.
                if untracked && is_temporary_name(name) {
                    return Ok(FolderPresence::Nothing);
                }
                if untracked && self.is_ignored(folder_at, &path, IgnoreEntryKind::Other) {
                    self.result.ignored.push(path);
                    return Ok(FolderPresence::Nothing);
                }
                if untracked {
                    self.count_new(&path)?;
                }
                self.add_file(name, path, stat)
            }
            other => {
                if !self.is_ignored(folder_at, &path, IgnoreEntryKind::Other) {
                    self.omit(path, special_file_reason(other))?;
                }
                Ok(FolderPresence::Nothing)
            }
        }
    }

    fn is_ignored(
        &self,
        folder_at: SandboxWalkFolder<'_>,
        path: &[u8],
        entry: IgnoreEntryKind,
    ) -> bool {
        folder_at.reach == Reach::TrackedOnly || folder_at.rules.is_ignored(path, entry)
    }

    fn check_stop(&self) -> SandboxResult<()> {
        self.stop.check().map_err(SandboxError::Stopped)
    }

    fn count_new(&mut self, path: &[u8]) -> SandboxResult<()> {
        self.new_paths += 1;
        self.limits.check_count(self.new_paths, path)
    }

    /// Returns the names in a folder, sorted.
    fn names_in(&self, folder_at: SandboxWalkFolder<'_>) -> SandboxResult<Vec<Vec<u8>>> {
        let explain = |error| errno_error(path_from_bytes(folder_at.path), error);
        let mut names = Vec::new();
        for entry in Dir::read_from(folder_at.folder).map_err(explain)? {
            self.check_stop()?;
            let entry = entry.map_err(explain)?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(name.to_vec());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn add_file(
        &mut self,
        name: &[u8],
        path: Vec<u8>,
        stat: FileStat,
    ) -> SandboxResult<FolderPresence> {
        if is_refused_name(name, stat.kind()) {
            self.omit(path, OmissionReason::Name)?;
            return Ok(FolderPresence::Nothing);
        }
        self.result.files.insert(path, stat);
        Ok(FolderPresence::Something)
    }

    fn walk_directory(
        &mut self,
        folder_at: SandboxWalkFolder<'_>,
        name: &[u8],
        path: Vec<u8>,
    ) -> SandboxResult<FolderPresence> {
        let ignored = self.is_ignored(folder_at, &path, IgnoreEntryKind::Directory);
        // Tracked paths are captured even inside an ignored folder.
        if ignored && !self.tracked.has_paths_in(&path) {
            self.result.ignored.push(path);
            return Ok(FolderPresence::Nothing);
        }
        if is_refused_name(name, FileType::Directory) {
            self.omit(path, OmissionReason::Name)?;
            return Ok(FolderPresence::Nothing);
        }
        if folder_at.depth >= MAX_DEPTH {
            self.add_unreadable(path, OmissionReason::TooDeep)?;
            return Ok(FolderPresence::Something);
        }
        let Ok(folder) = open_folder(folder_at.folder, name) else {
            self.add_unreadable(path, OmissionReason::Unreadable)?;
            return Ok(FolderPresence::Something);
        };
        let content = read_gitignore(folder.as_fd());
        let rules = folder_at.rules.for_folder(&path, &content);
        let inner = SandboxWalkFolder {
            folder: folder.as_fd(),
            path: &path,
            rules: &rules,
            reach: if ignored {
                Reach::TrackedOnly
            } else {
                Reach::All
            },
            depth: folder_at.depth + 1,
        };
        let presence = self.walk_folder(inner)?;
        if ignored {
            return Ok(presence);
        }
        if presence == FolderPresence::Nothing {
            self.count_new(&path)?;
            self.result.empty_directories.insert(path);
        }
        Ok(FolderPresence::Something)
    }

    fn check_submodule(
        &mut self,
        folder_at: SandboxWalkFolder<'_>,
        name: &[u8],
        path: Vec<u8>,
        stat: FileStat,
    ) -> SandboxResult<()> {
        let as_made = stat.kind() == FileType::Directory
            && open_folder(folder_at.folder, name).is_ok_and(|folder| is_empty(folder.as_fd()));
        if !as_made {
            self.omit(path, OmissionReason::Submodule)?;
        }
        Ok(())
    }

    fn omit(&mut self, path: Vec<u8>, why: OmissionReason) -> SandboxResult<()> {
        self.count_new(&path)?;
        self.result.omitted.insert((path, why));
        Ok(())
    }

    fn add_unreadable(&mut self, path: Vec<u8>, why: OmissionReason) -> SandboxResult<()> {
        self.result.unreadable.push(path.clone());
        self.omit(path, why)
    }
}

fn is_ignored_at(folder_at: SandboxWalkFolder<'_>, path: &[u8], entry: IgnoreEntryKind) -> bool {
    let start = folder_at.path.len() + usize::from(!folder_at.path.is_empty());
    let Some(length) = path[start..].iter().position(|byte| *byte == b'/') else {
        return folder_at.rules.is_ignored(path, entry);
    };
    let here = &path[..start + length];
    if folder_at.rules.is_ignored(here, IgnoreEntryKind::Directory) {
        return true;
    }
    let folder = open_folder(folder_at.folder, &path[start..start + length]).ok();
    let content = folder.as_ref().map(|folder| read_gitignore(folder.as_fd()));
    let rules = folder_at
        .rules
        .for_folder(here, &content.unwrap_or_default());
    let inner = SandboxWalkFolder {
        // A missing folder has no rules, and neither has anything in it.
        folder: folder.as_ref().map_or(folder_at.folder, AsFd::as_fd),
        path: here,
        rules: &rules,
        ..folder_at
    };
    match folder {
        Some(_) => is_ignored_at(inner, path, entry),
        None => is_ignored_below(&rules, path, here.len() + 1, entry),
    }
}

/// Returns whether rules of a parent ignore a path or one of its folders, from byte `start` on.
fn is_ignored_below(
    rules: &IgnoreRules<'_>,
    path: &[u8],
    start: usize,
    entry: IgnoreEntryKind,
) -> bool {
    let slashes = (start..path.len()).filter(|at| path[*at] == b'/');
    let mut folders = slashes.map(|at| &path[..at]);
    folders.any(|folder| rules.is_ignored(folder, IgnoreEntryKind::Directory))
        || rules.is_ignored(path, entry)
}

fn special_file_reason(kind: FileType) -> OmissionReason {
    match kind {
        FileType::Socket => OmissionReason::Socket,
        FileType::Fifo => OmissionReason::Fifo,
        _ => OmissionReason::Device,
    }
}

fn stat_of(folder: BorrowedFd<'_>, name: &[u8], path: &[u8]) -> SandboxResult<Option<FileStat>> {
    match statat(folder, path_from_bytes(name), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(FileStat::from(&stat))),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG) => Ok(None),
        Err(error) => Err(errno_error(path_from_bytes(path), error)),
    }
}

fn is_empty(folder: BorrowedFd<'_>) -> bool {
    let entries = Dir::read_from(folder).into_iter().flatten().flatten();
    entries
        .filter(|it| !matches!(it.file_name().to_bytes(), b"." | b".."))
        .count()
        == 0
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use cleveragents_ports::stop::StopReason;
    use cleveragents_safe_fs::ignore_rules::NameCase;

    use super::*;

    /// Signals stop at the third path, and counts the paths.
    struct StopAtThirdPath(StopSignal, Cell<usize>);

    impl TrackedPaths for StopAtThirdPath {
        fn tracked_kind(&self, _path: &[u8]) -> TrackedKind {
            self.1.set(self.1.get() + 1);
            if self.1.get() == 3 {
                self.0.stop(StopReason::Cancelled);
            }
            TrackedKind::File
        }

        fn has_paths_in(&self, _folder: &[u8]) -> bool {
            true
        }
    }

    #[test]
    fn no_path_is_read_after_the_stop_signal() {
        let folder = tempfile::tempdir().unwrap();
        for at in 0..20 {
            std::fs::File::create(folder.path().join(format!("{at}"))).unwrap();
        }
        let rules = IgnoreRules::global(b"", NameCase::Sensitive);
        let tracked = StopAtThirdPath(StopSignal::new(), Cell::new(0));
        let walker = SandboxWalker::new(folder.path(), &rules, &tracked).unwrap();
        let mut walker = walker.bounded(&tracked.0, CaptureLimits::NONE);
        let stopped = Err(SandboxError::Stopped(StopReason::Cancelled));
        assert_eq!(walker.walk_all(), stopped);
        assert_eq!(tracked.1.get(), 3);
    }
}

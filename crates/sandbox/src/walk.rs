//! Walks a tree an agent wrote, by open folders and never through a link.
//!
//! Nothing found is obeyed but `.gitignore`: attributes, configuration and hooks are only files.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use cleveragents_beneath::ignore_rules::{Entry, Rules, rules_in};
use cleveragents_beneath::refused_names::{is_dot_git, is_refused_name};
use cleveragents_engine::ports::sandbox::{OmittedWhy, SandboxError, SandboxResult};
use cleveragents_engine::ports::stop::Stop;
use rustix::fs::{AtFlags, Dir, FileType, statat};
use rustix::io::Errno;

use crate::beneath::{FileStat, failed, open_folder, open_root, reopen};
use crate::files::path_of;
use crate::limits::CaptureLimits;

/// How deep folders may be nested: each level of the walk holds one open.
const MOST_DEPTH: usize = 200;

/// What is known of a path from the tree captured before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    No,
    File,
    Submodule,
}

/// The tree captured before, as far as a walk has to know it.
pub(crate) trait Tracked {
    fn known(&self, path: &[u8]) -> Known;
    /// Whether any path lies in this folder.
    fn has_inside(&self, folder: &[u8]) -> bool;
}

/// What a walk found.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    pub(crate) files: BTreeMap<Vec<u8>, FileStat>,
    pub(crate) empty_directories: BTreeSet<Vec<u8>>,
    pub(crate) omitted: BTreeSet<(Vec<u8>, OmittedWhy)>,
    /// Submodules that are still there, whatever has become of them.
    pub(crate) submodules: BTreeSet<Vec<u8>>,
    /// Ignored files and folders, the outermost only.
    pub(crate) ignored: Vec<Vec<u8>>,
    /// Places that could not be looked into: what was known of them stays.
    pub(crate) unseen: Vec<Vec<u8>>,
    /// Paths of which all that is there was looked at.
    pub(crate) scopes: Vec<Vec<u8>>,
}

/// Whether untracked files count where the walk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    All,
    /// Inside an ignored folder.
    TrackedOnly,
}

/// Whether a folder holds something that makes it more than an empty one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    Nothing,
    Something,
}

/// One place on the way: its folder, its rules and how they were reached.
#[derive(Clone, Copy)]
struct Place<'a> {
    folder: BorrowedFd<'a>,
    path: &'a [u8],
    rules: &'a Rules<'a>,
    reach: Reach,
    depth: usize,
}

impl Place<'_> {
    fn join(&self, name: &[u8]) -> Vec<u8> {
        match self.path.is_empty() {
            true => name.to_vec(),
            false => [self.path, name].join(&b'/'),
        }
    }
}

pub(crate) struct Walker<'a> {
    tracked: &'a dyn Tracked,
    root: OwnedFd,
    rules: &'a Rules<'a>,
    stop: Stop,
    limits: CaptureLimits,
    /// How many paths were found that the tree captured before does not have.
    new_paths: u64,
    pub(crate) walked: Walked,
}

impl<'a> Walker<'a> {
    pub(crate) fn new(
        root: &Path,
        rules: &'a Rules<'a>,
        tracked: &'a dyn Tracked,
    ) -> SandboxResult<Self> {
        Ok(Self {
            tracked,
            root: open_root(root)?,
            rules,
            stop: Stop::new(),
            limits: CaptureLimits::NONE,
            new_paths: 0,
            walked: Walked::default(),
        })
    }

    /// The same walk, which fails when `stop` is given or when it finds more than `limits` allow.
    pub(crate) fn bounded(mut self, stop: &Stop, limits: CaptureLimits) -> Self {
        self.stop = stop.clone();
        self.limits = limits;
        self
    }

    /// Looks at the whole tree.
    pub(crate) fn all(&mut self) -> SandboxResult<()> {
        self.walked.scopes.push(Vec::new());
        self.at_root(|walker, place| walker.folder(place).map(drop))
    }

    /// Looks at one path and all that is in it.
    pub(crate) fn only(&mut self, path: &[u8]) -> SandboxResult<()> {
        self.at_root(|walker, place| walker.descend(place, path))
    }

    /// Whether `path` is a folder whose folders, if any, are all ignored.
    pub(crate) fn is_leaf(&mut self, path: &[u8]) -> SandboxResult<bool> {
        let mut probe = Walker {
            tracked: self.tracked,
            root: reopen(self.root.as_fd())?,
            rules: self.rules,
            stop: self.stop.clone(),
            limits: self.limits,
            new_paths: 0,
            walked: Walked::default(),
        };
        probe.only(path)?;
        Ok(probe.walked.empty_directories.contains(path))
    }

    /// Whether the rules of this tree ignore `path`, there or not.
    pub(crate) fn would_ignore(&mut self, path: &[u8], entry: Entry) -> SandboxResult<bool> {
        self.at_root(|_, place| Ok(ignores(place, path, entry)))
    }

    fn at_root<T>(
        &mut self,
        work: impl FnOnce(&mut Self, Place<'_>) -> SandboxResult<T>,
    ) -> SandboxResult<T> {
        let folder = reopen(self.root.as_fd())?;
        let content = rules_in(folder.as_fd());
        let rules = self.rules.inside(b"", &content);
        let place = Place {
            folder: folder.as_fd(),
            path: b"",
            rules: &rules,
            reach: Reach::All,
            depth: 0,
        };
        work(self, place)
    }

    /// Goes on towards `path`; what is in the way instead of a folder is looked at in its stead.
    fn descend(&mut self, place: Place<'_>, path: &[u8]) -> SandboxResult<()> {
        let rest = &path[place.path.len()..];
        let rest = rest.strip_prefix(b"/").unwrap_or(rest);
        let name = rest.split(|byte| *byte == b'/').next().unwrap_or(rest);
        let here = place.join(name);
        let is_last = here.len() == path.len();
        let stat = stat_of(place.folder, name, &here)?;
        let is_folder = stat.is_some_and(|stat| stat.kind() == FileType::Directory);
        let is_submodule = self.tracked.known(&here) == Known::Submodule;
        if is_last || !is_folder || is_submodule || is_dot_git(name) {
            self.entry(place, name)?;
            self.walked.scopes.push(here);
            return Ok(());
        }
        let ignored = place.rules.ignore(&here, Entry::Directory);
        let reach = if ignored {
            Reach::TrackedOnly
        } else {
            place.reach
        };
        match open_folder(place.folder, name) {
            Ok(folder) => {
                let content = rules_in(folder.as_fd());
                let rules = place.rules.inside(&here, &content);
                let inner = Place {
                    folder: folder.as_fd(),
                    path: &here,
                    rules: &rules,
                    reach,
                    depth: place.depth + 1,
                };
                self.descend(inner, path)
            }
            Err(_) => {
                self.unseen(here.clone(), OmittedWhy::Unreadable)?;
                self.walked.scopes.push(here);
                Ok(())
            }
        }
    }

    fn folder(&mut self, place: Place<'_>) -> SandboxResult<Presence> {
        let mut presence = Presence::Nothing;
        for name in self.names_in(place)? {
            if self.entry(place, &name)? == Presence::Something {
                presence = Presence::Something;
            }
        }
        Ok(presence)
    }

    fn entry(&mut self, place: Place<'_>, name: &[u8]) -> SandboxResult<Presence> {
        self.check_stop()?;
        let path = place.join(name);
        let Some(stat) = stat_of(place.folder, name, &path)? else {
            return Ok(Presence::Nothing);
        };
        if is_dot_git(name) {
            if path != b".git" && place.reach == Reach::All {
                let why = if name == b".git" {
                    OmittedWhy::NestedRepository
                } else {
                    OmittedWhy::Name
                };
                self.omit(path, why)?;
            }
            return Ok(Presence::Nothing);
        }
        let known = self.tracked.known(&path);
        if known == Known::Submodule {
            self.walked.submodules.insert(path.clone());
            self.submodule(place, name, path, stat)?;
            return Ok(Presence::Something);
        }
        match stat.kind() {
            FileType::Directory => self.directory(place, name, path),
            FileType::RegularFile | FileType::Symlink => {
                let untracked = known == Known::No;
                if untracked && self.is_ignored(place, &path, Entry::Other) {
                    self.walked.ignored.push(path);
                    return Ok(Presence::Nothing);
                }
                if untracked {
                    self.count_new(&path)?;
                }
                self.file(name, path, stat)
            }
            other => {
                if !self.is_ignored(place, &path, Entry::Other) {
                    self.omit(path, special(other))?;
                }
                Ok(Presence::Nothing)
            }
        }
    }

    fn is_ignored(&self, place: Place<'_>, path: &[u8], entry: Entry) -> bool {
        place.reach == Reach::TrackedOnly || place.rules.ignore(path, entry)
    }

    fn check_stop(&self) -> SandboxResult<()> {
        self.stop.check().map_err(SandboxError::Stopped)
    }

    fn count_new(&mut self, path: &[u8]) -> SandboxResult<()> {
        self.new_paths += 1;
        self.limits.check_count(self.new_paths, path)
    }

    /// The names in a folder, in their order.
    fn names_in(&self, place: Place<'_>) -> SandboxResult<Vec<Vec<u8>>> {
        let explain = |error| failed(path_of(place.path), error);
        let mut names = Vec::new();
        for entry in Dir::read_from(place.folder).map_err(explain)? {
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

    fn file(&mut self, name: &[u8], path: Vec<u8>, stat: FileStat) -> SandboxResult<Presence> {
        if is_refused_name(name, stat.kind()) {
            self.omit(path, OmittedWhy::Name)?;
            return Ok(Presence::Nothing);
        }
        self.walked.files.insert(path, stat);
        Ok(Presence::Something)
    }

    fn directory(
        &mut self,
        place: Place<'_>,
        name: &[u8],
        path: Vec<u8>,
    ) -> SandboxResult<Presence> {
        let ignored = self.is_ignored(place, &path, Entry::Directory);
        if ignored && !self.tracked.has_inside(&path) {
            self.walked.ignored.push(path);
            return Ok(Presence::Nothing);
        }
        if is_refused_name(name, FileType::Directory) {
            self.omit(path, OmittedWhy::Name)?;
            return Ok(Presence::Nothing);
        }
        if place.depth >= MOST_DEPTH {
            self.unseen(path, OmittedWhy::TooDeep)?;
            return Ok(Presence::Something);
        }
        let Ok(folder) = open_folder(place.folder, name) else {
            self.unseen(path, OmittedWhy::Unreadable)?;
            return Ok(Presence::Something);
        };
        let content = rules_in(folder.as_fd());
        let rules = place.rules.inside(&path, &content);
        let inner = Place {
            folder: folder.as_fd(),
            path: &path,
            rules: &rules,
            reach: if ignored {
                Reach::TrackedOnly
            } else {
                Reach::All
            },
            depth: place.depth + 1,
        };
        let presence = self.folder(inner)?;
        if ignored {
            return Ok(presence);
        }
        if presence == Presence::Nothing {
            self.count_new(&path)?;
            self.walked.empty_directories.insert(path);
        }
        Ok(Presence::Something)
    }

    fn submodule(
        &mut self,
        place: Place<'_>,
        name: &[u8],
        path: Vec<u8>,
        stat: FileStat,
    ) -> SandboxResult<()> {
        let as_made = stat.kind() == FileType::Directory
            && open_folder(place.folder, name).is_ok_and(|folder| is_empty(folder.as_fd()));
        if !as_made {
            self.omit(path, OmittedWhy::Submodule)?;
        }
        Ok(())
    }

    fn omit(&mut self, path: Vec<u8>, why: OmittedWhy) -> SandboxResult<()> {
        self.count_new(&path)?;
        self.walked.omitted.insert((path, why));
        Ok(())
    }

    fn unseen(&mut self, path: Vec<u8>, why: OmittedWhy) -> SandboxResult<()> {
        self.walked.unseen.push(path.clone());
        self.omit(path, why)
    }
}

fn ignores(place: Place<'_>, path: &[u8], entry: Entry) -> bool {
    let start = place.path.len() + usize::from(!place.path.is_empty());
    let Some(length) = path[start..].iter().position(|byte| *byte == b'/') else {
        return place.rules.ignore(path, entry);
    };
    let here = &path[..start + length];
    if place.rules.ignore(here, Entry::Directory) {
        return true;
    }
    let folder = open_folder(place.folder, &path[start..start + length]).ok();
    let content = folder.as_ref().map(|folder| rules_in(folder.as_fd()));
    let rules = place.rules.inside(here, &content.unwrap_or_default());
    let inner = Place {
        // A folder that is not there has no rules, nor has any in it.
        folder: folder.as_ref().map_or(place.folder, AsFd::as_fd),
        path: here,
        rules: &rules,
        ..place
    };
    match folder {
        Some(_) => ignores(inner, path, entry),
        None => is_ignored_below(&rules, path, here.len() + 1, entry),
    }
}

/// Whether rules from further up ignore a path or a folder it lies in, from byte `start` on.
fn is_ignored_below(rules: &Rules<'_>, path: &[u8], start: usize, entry: Entry) -> bool {
    let slashes = (start..path.len()).filter(|at| path[*at] == b'/');
    let mut folders = slashes.map(|at| &path[..at]);
    folders.any(|folder| rules.ignore(folder, Entry::Directory)) || rules.ignore(path, entry)
}

fn special(kind: FileType) -> OmittedWhy {
    match kind {
        FileType::Socket => OmittedWhy::Socket,
        FileType::Fifo => OmittedWhy::Fifo,
        _ => OmittedWhy::Device,
    }
}

fn stat_of(folder: BorrowedFd<'_>, name: &[u8], path: &[u8]) -> SandboxResult<Option<FileStat>> {
    match statat(folder, path_of(name), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(FileStat::from(&stat))),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG) => Ok(None),
        Err(error) => Err(failed(path_of(path), error)),
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

    use cleveragents_beneath::ignore_rules::Case;
    use cleveragents_engine::ports::stop::Stopped;

    use super::*;

    /// Gives the stop signal when it is asked for the third path, and counts the paths.
    struct StopsAtThird(Stop, Cell<usize>);

    impl Tracked for StopsAtThird {
        fn known(&self, _path: &[u8]) -> Known {
            self.1.set(self.1.get() + 1);
            if self.1.get() == 3 {
                self.0.stop(Stopped::Cancelled);
            }
            Known::File
        }

        fn has_inside(&self, _folder: &[u8]) -> bool {
            true
        }
    }

    #[test]
    fn no_further_path_is_looked_at_after_the_stop_signal() {
        let folder = tempfile::tempdir().unwrap();
        for at in 0..20 {
            std::fs::File::create(folder.path().join(format!("{at}"))).unwrap();
        }
        let rules = Rules::everywhere(b"", Case::Sensitive);
        let tracked = StopsAtThird(Stop::new(), Cell::new(0));
        let walker = Walker::new(folder.path(), &rules, &tracked).unwrap();
        let mut walker = walker.bounded(&tracked.0, CaptureLimits::NONE);
        let stopped = Err(SandboxError::Stopped(Stopped::Cancelled));
        assert_eq!(walker.all(), stopped);
        assert_eq!(tracked.1.get(), 3);
    }
}

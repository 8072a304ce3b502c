//! Resolves paths folder by folder and follows links only as long as they stay inside the tree.
//!
//! Each step opens one name without following it, so a link is detected at the moment it is used.
//! Swapping a folder for a link between check and use therefore cannot lead outside. The behaviour is
//! the same on every system, and an error can name the link that leaves the tree.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, readlinkat, statat};
use rustix::io::Errno;

use crate::file_access::{FileStat, make_and_open_owned, open_folder, reopen};
use crate::path_from_bytes;

/// The limit of the Linux kernel.
const MAX_LINKS: usize = 40;

/// Whether a link at the end of a path is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastLink {
    Follow,
    Keep,
}

#[derive(Debug)]
pub enum ResolvedPath {
    /// The root itself.
    Root,
    Entry(ResolvedEntry),
}

/// A name in an open folder. Nothing need exist under that name.
#[derive(Debug)]
pub struct ResolvedEntry {
    folder: OwnedFd,
    /// Folders between the open folder and the name that do not exist.
    missing: Vec<Vec<u8>>,
    /// The last name of the path after all links were resolved.
    pub name: Vec<u8>,
    /// The whole path after all links were resolved.
    pub path: Vec<u8>,
    /// `None` if nothing exists there.
    pub stat: Option<FileStat>,
}

impl ResolvedEntry {
    /// Returns the folder that contains the name. Fails if it does not exist.
    pub fn folder(&self) -> Result<BorrowedFd<'_>, Errno> {
        if self.missing.is_empty() {
            Ok(self.folder.as_fd())
        } else {
            Err(Errno::NOENT)
        }
    }

    /// Returns the folder that contains the name, after creating it and its missing parents.
    pub fn make_folder(&self) -> Result<OwnedFd, Errno> {
        let mut folder = reopen(self.folder.as_fd())?;
        for name in &self.missing {
            folder = make_and_open_owned(folder.as_fd(), name)?;
        }
        Ok(folder)
    }

    /// Returns how many folders [`Self::make_folder`] would create.
    pub fn missing_folders(&self) -> usize {
        self.missing.len()
    }
}

/// Error of a path that could not be resolved. Each error names the last path that was reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResolveError {
    /// A link leads out of the tree.
    Outside {
        link: Vec<u8>,
    },
    /// A file is where a folder is needed.
    NotAFolder {
        at: Vec<u8>,
    },
    /// A link leads through a folder that does not exist (`missing/..`).
    Absent {
        at: Vec<u8>,
    },
    TooManyLinks {
        link: Vec<u8>,
    },
    /// Any other error of the kernel.
    Failed {
        at: Vec<u8>,
        error: Errno,
    },
}

pub fn resolve(
    root: BorrowedFd<'_>,
    path: &[u8],
    last: LastLink,
) -> Result<ResolvedPath, ResolveError> {
    let mut way = PathResolver {
        root,
        folders: Vec::new(),
        pending: VecDeque::new(),
        missing: Vec::new(),
        links: 0,
    };
    way.prepend(path);
    way.walk(last)
}

struct PathResolver<'a> {
    root: BorrowedFd<'a>,
    /// Open folders and their names, starting at the root.
    folders: Vec<(OwnedFd, Vec<u8>)>,
    /// Names that still have to be resolved.
    pending: VecDeque<Vec<u8>>,
    missing: Vec<Vec<u8>>,
    links: usize,
}

impl PathResolver<'_> {
    fn walk(mut self, last: LastLink) -> Result<ResolvedPath, ResolveError> {
        while let Some(name) = self.pending.pop_front() {
            if name == b".." {
                self.enter_parent()?;
            } else if !self.missing.is_empty() {
                self.missing.push(name);
            } else if self.pending.is_empty() {
                if let Some(entry) = self.resolve_last(&name, last)? {
                    return Ok(ResolvedPath::Entry(entry));
                }
            } else {
                self.enter(name)?;
            }
        }
        self.finish()
    }

    /// The path ended at a folder that was already opened, or below folders that do not exist.
    fn finish(mut self) -> Result<ResolvedPath, ResolveError> {
        if let Some(name) = self.missing.pop() {
            let missing = std::mem::take(&mut self.missing);
            return self.entry(missing, name, None).map(ResolvedPath::Entry);
        }
        match self.folders.pop() {
            None => Ok(ResolvedPath::Root),
            Some((_, name)) => {
                let stat = self.stat(&name)?;
                self.entry(Vec::new(), name, stat).map(ResolvedPath::Entry)
            }
        }
    }

    fn enter_parent(&mut self) -> Result<(), ResolveError> {
        if !self.missing.is_empty() {
            let at = self.join(b"");
            return Err(ResolveError::Absent { at });
        }
        match self.folders.pop() {
            Some(_) => Ok(()),
            None => Err(ResolveError::Outside { link: Vec::new() }),
        }
    }

    fn enter(&mut self, name: Vec<u8>) -> Result<(), ResolveError> {
        match open_folder(self.current_folder(), &name) {
            Ok(folder) => {
                self.folders.push((folder, name));
                Ok(())
            }
            Err(Errno::NOENT) => {
                self.missing.push(name);
                Ok(())
            }
            // Which error a link gives depends on the system.
            Err(Errno::NOTDIR | Errno::LOOP | Errno::MLINK) => self.follow_link(&name),
            Err(error) => Err(self.error_at(&name, error)),
        }
    }

    /// Resolves the last name. Returns `None` if it is a link that must be followed.
    fn resolve_last(
        &mut self,
        name: &[u8],
        last: LastLink,
    ) -> Result<Option<ResolvedEntry>, ResolveError> {
        let stat = self.stat(name)?;
        let is_link = stat.is_some_and(|stat| stat.kind() == FileType::Symlink);
        if is_link && last == LastLink::Follow {
            self.follow_link(name)?;
            return Ok(None);
        }
        self.entry(Vec::new(), name.to_vec(), stat).map(Some)
    }

    fn follow_link(&mut self, name: &[u8]) -> Result<(), ResolveError> {
        let link = self.join(name);
        let target = match readlinkat(self.current_folder(), path_from_bytes(name), Vec::new()) {
            Ok(target) => target.into_bytes(),
            // It is no link, so a file is where a folder is needed.
            Err(Errno::INVAL) => return Err(ResolveError::NotAFolder { at: link }),
            Err(error) => return Err(ResolveError::Failed { at: link, error }),
        };
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(ResolveError::TooManyLinks { link });
        }
        if target.first() == Some(&b'/') || !self.stays_inside(&target) {
            return Err(ResolveError::Outside { link });
        }
        self.prepend(&target);
        Ok(())
    }

    /// Returns whether the target of a link, read as text, does not climb above the root.
    fn stays_inside(&self, target: &[u8]) -> bool {
        let climbs = |depth: Option<usize>, part: &[u8]| match part {
            b"" | b"." => depth,
            b".." => depth?.checked_sub(1),
            _ => depth?.checked_add(1),
        };
        let parts = target.split(|byte| *byte == b'/');
        parts.fold(Some(self.folders.len()), climbs).is_some()
    }

    fn prepend(&mut self, path: &[u8]) {
        let parts = path.split(|byte| *byte == b'/').rev();
        for part in parts.filter(|part| !matches!(*part, b"" | b".")) {
            self.pending.push_front(part.to_vec());
        }
    }

    fn stat(&self, name: &[u8]) -> Result<Option<FileStat>, ResolveError> {
        match statat(
            self.current_folder(),
            path_from_bytes(name),
            AtFlags::SYMLINK_NOFOLLOW,
        ) {
            Ok(stat) => Ok(Some(FileStat::from(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(self.error_at(name, error)),
        }
    }

    fn entry(
        &self,
        missing: Vec<Vec<u8>>,
        name: Vec<u8>,
        stat: Option<FileStat>,
    ) -> Result<ResolvedEntry, ResolveError> {
        let mut path = self.join(b"");
        for part in missing.iter().chain([&name]) {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(part);
        }
        let folder = reopen(self.current_folder()).map_err(|error| self.error_at(b"", error))?;
        Ok(ResolvedEntry {
            folder,
            missing,
            name,
            path,
            stat,
        })
    }

    fn current_folder(&self) -> BorrowedFd<'_> {
        let innermost = self.folders.last();
        innermost.map_or(self.root, |(folder, _)| folder.as_fd())
    }

    fn join(&self, name: &[u8]) -> Vec<u8> {
        let names = self.folders.iter().map(|(_, name)| name.as_slice());
        let names = names.chain([name]).filter(|name| !name.is_empty());
        names.collect::<Vec<_>>().join(&b'/')
    }

    fn error_at(&self, name: &[u8], error: Errno) -> ResolveError {
        let at = self.join(name);
        ResolveError::Failed { at, error }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::file_access::open_root;

    fn describe(resolved: Result<ResolvedPath, ResolveError>) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match resolved {
            Ok(ResolvedPath::Root) => "root".into(),
            Ok(ResolvedPath::Entry(entry)) => match (entry.stat, entry.missing_folders()) {
                (Some(_), _) => text(&entry.path),
                (None, missing) => format!("no {} ({missing} folders missing)", text(&entry.path)),
            },
            Err(ResolveError::Outside { link }) => format!("outside at {}", text(&link)),
            Err(ResolveError::NotAFolder { at }) => format!("no folder at {}", text(&at)),
            Err(ResolveError::Absent { at }) => format!("absent at {}", text(&at)),
            Err(ResolveError::TooManyLinks { .. }) => "too many links".into(),
            Err(ResolveError::Failed { error, .. }) => error.to_string(),
        }
    }

    #[test]
    fn links_are_followed_as_long_as_they_stay_inside() {
        let world = tempfile::tempdir().unwrap();
        let tree = world.path().join("tree");
        fs::create_dir_all(tree.join("a/b")).unwrap();
        fs::create_dir(world.path().join("outside")).unwrap();
        fs::File::create(tree.join("a/b/file")).unwrap();
        for (target, link) in [
            ("a/b", "folder"),
            ("a/b/file", "to-file"),
            ("folder/file", "chain"),
            ("../../a/./b//file", "a/b/round"),
            (".", "self"),
            ("..", "a/up"),
            ("../outside", "leaves"),
            ("a/../../outside", "leaves-later"),
            ("/etc", "absolute"),
            ("/proc/self/root", "magic"),
            ("leaves", "leaves-by-chain"),
            ("nothing/here", "dangling"),
            ("nothing/../a", "odd"),
            ("loop", "loop"),
        ] {
            symlink(target, tree.join(link)).unwrap();
        }
        let root = open_root(&tree).unwrap();
        for (path, last, expected) in [
            ("a/b/file", LastLink::Follow, "a/b/file"),
            ("", LastLink::Follow, "root"),
            ("folder/file", LastLink::Keep, "a/b/file"),
            ("to-file", LastLink::Follow, "a/b/file"),
            ("to-file", LastLink::Keep, "to-file"),
            ("chain", LastLink::Follow, "a/b/file"),
            ("folder/round", LastLink::Follow, "a/b/file"),
            ("self", LastLink::Follow, "root"),
            ("self/self/a", LastLink::Follow, "a"),
            ("a/up", LastLink::Follow, "root"),
            ("a/up/a/b", LastLink::Follow, "a/b"),
            ("leaves", LastLink::Follow, "outside at leaves"),
            ("leaves", LastLink::Keep, "leaves"),
            ("leaves/x", LastLink::Keep, "outside at leaves"),
            ("leaves-later", LastLink::Follow, "outside at leaves-later"),
            ("absolute/passwd", LastLink::Follow, "outside at absolute"),
            ("magic/etc/passwd", LastLink::Follow, "outside at magic"),
            ("leaves-by-chain/x", LastLink::Follow, "outside at leaves"),
            (
                "dangling",
                LastLink::Follow,
                "no nothing/here (1 folders missing)",
            ),
            ("odd", LastLink::Follow, "absent at "),
            ("loop", LastLink::Follow, "too many links"),
            (
                "new/x/y",
                LastLink::Follow,
                "no new/x/y (2 folders missing)",
            ),
            ("a/b/file/x", LastLink::Follow, "no folder at a/b/file"),
        ] {
            let resolved = resolve(root.as_fd(), path.as_bytes(), last);
            assert_eq!(describe(resolved), expected, "{path}");
        }
    }
}

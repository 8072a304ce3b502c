//! The paths of a captured tree with what is known of each file on disk.
//!
//! As in git's index, a file with an unchanged stat is not read again. If a file may have been
//! written in the same clock tick in which it was read, its stat is left out, so it is read again.

use std::collections::{BTreeMap, BTreeSet};

use crate::object_id::ObjectId;
use crate::safe_fs::FileStat;
use crate::walk::{TrackedKind, TrackedPaths};

pub(crate) const FOLDER: u32 = 0o040_000;
pub(crate) const GITLINK: u32 = 0o160_000;
pub(crate) const LINK: u32 = 0o120_000;
pub(crate) const EXECUTABLE: u32 = 0o100_755;
pub(crate) const FILE: u32 = 0o100_644;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TreeEntry {
    /// The mode in git's notation.
    pub(crate) mode: u32,
    pub(crate) object: ObjectId,
    /// The stat of the file when its content was known to be `object`.
    pub(crate) stat: Option<FileStat>,
    /// Hash and size of its bytes in the tree, if they were read.
    pub(crate) content: Option<Content>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) hash: [u8; 32],
    pub(crate) size: u64,
}

/// Everything in a captured tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TreeEntries {
    pub(crate) files: BTreeMap<Vec<u8>, TreeEntry>,
    pub(crate) empty_directories: BTreeSet<Vec<u8>>,
    /// The known git trees of folders. The root has the empty path.
    pub(crate) folders: BTreeMap<Vec<u8>, ObjectId>,
}

impl TrackedPaths for TreeEntries {
    fn tracked_kind(&self, path: &[u8]) -> TrackedKind {
        match self.files.get(path) {
            None => TrackedKind::Untracked,
            Some(entry) if entry.mode == GITLINK => TrackedKind::Submodule,
            Some(_) => TrackedKind::File,
        }
    }

    fn has_paths_in(&self, folder: &[u8]) -> bool {
        self.entries_in(folder).next().is_some()
    }
}

impl TreeEntries {
    /// Returns the paths in this folder.
    pub(crate) fn entries_in(&self, folder: &[u8]) -> impl Iterator<Item = (&Vec<u8>, &TreeEntry)> {
        let mut prefix = folder.to_vec();
        if !prefix.is_empty() {
            prefix.push(b'/');
        }
        let range = self.files.range(prefix.clone()..);
        range.take_while(move |(path, _)| path.starts_with(&prefix))
    }

    /// Applies a change to these entries.
    pub(crate) fn apply(&mut self, change: TreeChange) {
        for path in &change.deleted {
            self.files.remove(path);
        }
        if self.files.is_empty() {
            self.files = change.files;
        } else {
            self.files.extend(change.files);
        }
        for (folder, tree) in change.folders {
            match tree {
                Some(tree) => drop(self.folders.insert(folder, tree)),
                None => drop(self.folders.remove(&folder)),
            }
        }
        self.empty_directories = change.empty_directories;
    }
}

/// The difference between two captured trees.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TreeChange {
    /// New and changed entries, and those of which more is known now.
    pub(crate) files: BTreeMap<Vec<u8>, TreeEntry>,
    pub(crate) deleted: BTreeSet<Vec<u8>>,
    /// Trees of folders; `None` for a folder that no longer has one.
    pub(crate) folders: BTreeMap<Vec<u8>, Option<ObjectId>>,
    /// All empty directories after the change.
    pub(crate) empty_directories: BTreeSet<Vec<u8>>,
}

impl From<TreeEntries> for TreeChange {
    /// The difference from an empty tree.
    fn from(entries: TreeEntries) -> Self {
        let folders = entries.folders.into_iter();
        Self {
            files: entries.files,
            deleted: BTreeSet::new(),
            folders: folders.map(|(path, tree)| (path, Some(tree))).collect(),
            empty_directories: entries.empty_directories,
        }
    }
}

/// Returns the folders that contain a path, without the root: `a` and `a/b` for `a/b/c`.
pub(crate) fn parent_folders(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    slashes.map(|(at, _)| &path[..at])
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sample() -> TreeEntries {
        let mut entries = TreeEntries::default();
        let stat = FileStat {
            size: 3,
            modified: -7,
            changed: i64::MAX,
            inode: u64::MAX,
            mode: 0o100_644,
        };
        for (path, stat) in [
            (&b"a"[..], None),
            (b"a/b", Some(stat)),
            (b"ab\xff", Some(stat)),
        ] {
            let content = stat.map(|stat| Content {
                hash: [7; 32],
                size: stat.size,
            });
            let entry = TreeEntry {
                mode: FILE,
                object: ObjectId::parse(&"a1".repeat(20)).unwrap(),
                stat,
                content,
            };
            entries.files.insert(path.to_vec(), entry);
        }
        let tree = ObjectId::parse(&"b2".repeat(20)).unwrap();
        entries.folders.insert(b"a".to_vec(), tree);
        entries.empty_directories.insert(b"empty".to_vec());
        entries
    }

    #[test]
    fn a_folder_holds_its_paths_and_not_its_siblings() {
        let entries = sample();
        let inside: Vec<_> = entries
            .entries_in(b"a")
            .map(|(path, _)| path.as_slice())
            .collect();
        assert_eq!(inside, [b"a/b"]);
        assert!(!entries.has_paths_in(b"ab\xff"));
        assert!(entries.has_paths_in(b""));
    }
}

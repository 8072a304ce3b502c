//! The paths of a captured tree with what is known of each file on disk, and their file.
//!
//! As in git's index, a file whose stat is what it was is not read again. A file that may have
//! been written in the same tick of the clock as it was read is not trusted: its stat is left out.
//! The file is replaced whole and ends in its own hash; a damaged one is as good as none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cleveragents_engine::ports::sandbox::{SandboxResult, TreeId};

use crate::beneath::FileStat;
use crate::files::{Sync, read_if_there, replace_quickly};
use crate::walk::{Known, Tracked};

pub(crate) const GITLINK: u32 = 0o160_000;
pub(crate) const LINK: u32 = 0o120_000;
pub(crate) const EXECUTABLE: u32 = 0o100_755;
pub(crate) const FILE: u32 = 0o100_644;

const MAGIC: &[u8] = b"agents entries 1\n";

/// One path of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeEntry {
    /// As git writes it.
    pub(crate) mode: u32,
    pub(crate) object: String,
    /// How the file looked when its content was known to be this.
    pub(crate) stat: Option<FileStat>,
    /// Hash and size of its bytes in the tree, where they were read.
    pub(crate) content: Option<Content>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) hash: [u8; 32],
    pub(crate) size: u64,
}

/// Everything in a captured tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Entries {
    pub(crate) files: BTreeMap<Vec<u8>, TreeEntry>,
    pub(crate) empty_directories: BTreeSet<Vec<u8>>,
}

impl Tracked for Entries {
    fn known(&self, path: &[u8]) -> Known {
        match self.files.get(path) {
            None => Known::No,
            Some(entry) if entry.mode == GITLINK => Known::Submodule,
            Some(_) => Known::File,
        }
    }

    fn has_inside(&self, folder: &[u8]) -> bool {
        self.inside(folder).next().is_some()
    }
}

impl Entries {
    /// The paths in this folder.
    pub(crate) fn inside(&self, folder: &[u8]) -> impl Iterator<Item = (&Vec<u8>, &TreeEntry)> {
        let mut prefix = folder.to_vec();
        if !prefix.is_empty() {
            prefix.push(b'/');
        }
        let range = self.files.range(prefix.clone()..);
        range.take_while(move |(path, _)| path.starts_with(&prefix))
    }

    /// Reads what was written for this very tree.
    pub(crate) fn load(path: &Path, tree: &TreeId) -> SandboxResult<Option<Self>> {
        let Some(bytes) = read_if_there(path)? else {
            return Ok(None);
        };
        let found = decode(&bytes).filter(|(found, _)| *found == tree.to_string());
        Ok(found.map(|(_, entries)| entries))
    }

    /// Reads what was written last, whatever its tree.
    pub(crate) fn load_last(path: &Path) -> SandboxResult<Option<Self>> {
        let found = read_if_there(path)?.and_then(|bytes| decode(&bytes));
        Ok(found.map(|(_, entries)| entries))
    }

    pub(crate) fn save(&self, path: &Path, tree: &TreeId) -> SandboxResult<()> {
        replace_quickly(path, &self.encode(tree), Sync::No)
    }

    fn encode(&self, tree: &TreeId) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        put(&mut bytes, tree.to_string().as_bytes());
        put_number(&mut bytes, self.files.len() as u64);
        for (path, entry) in &self.files {
            put(&mut bytes, path);
            put_number(&mut bytes, u64::from(entry.mode));
            put(&mut bytes, entry.object.as_bytes());
            bytes.push(u8::from(entry.stat.is_some()));
            if let Some(stat) = entry.stat {
                put_number(&mut bytes, stat.size);
                put_number(&mut bytes, stat.modified.cast_unsigned());
                put_number(&mut bytes, stat.changed.cast_unsigned());
                put_number(&mut bytes, stat.inode);
                put_number(&mut bytes, u64::from(stat.mode));
            }
            bytes.push(u8::from(entry.content.is_some()));
            if let Some(content) = entry.content {
                bytes.extend_from_slice(&content.hash);
                put_number(&mut bytes, content.size);
            }
        }
        put_number(&mut bytes, self.empty_directories.len() as u64);
        for path in &self.empty_directories {
            put(&mut bytes, path);
        }
        let hash = blake3::hash(&bytes);
        bytes.extend_from_slice(hash.as_bytes());
        bytes
    }
}

fn put(bytes: &mut Vec<u8>, part: &[u8]) {
    put_number(bytes, part.len() as u64);
    bytes.extend_from_slice(part);
}

fn put_number(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(&number.to_le_bytes());
}

fn decode(bytes: &[u8]) -> Option<(String, Entries)> {
    let (body, hash) = bytes.split_last_chunk::<32>()?;
    if blake3::hash(body).as_bytes() != hash {
        return None;
    }
    let mut reader = Reader(body.strip_prefix(MAGIC)?);
    let tree = String::from_utf8(reader.part()?.to_vec()).ok()?;
    let mut entries = Entries::default();
    for _ in 0..reader.number()? {
        let path = reader.part()?.to_vec();
        let entry = TreeEntry {
            mode: u32::try_from(reader.number()?).ok()?,
            object: String::from_utf8(reader.part()?.to_vec()).ok()?,
            stat: reader.optional(Reader::stat)?,
            content: reader.optional(Reader::content)?,
        };
        entries.files.insert(path, entry);
    }
    for _ in 0..reader.number()? {
        entries.empty_directories.insert(reader.part()?.to_vec());
    }
    reader.0.is_empty().then_some((tree, entries))
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn part(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (part, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(part)
    }

    fn optional<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        let (flag, rest) = self.0.split_first()?;
        self.0 = rest;
        match flag {
            0 => Some(None),
            _ => read(self).map(Some),
        }
    }

    fn stat(&mut self) -> Option<FileStat> {
        Some(FileStat {
            size: self.number()?,
            modified: self.number()?.cast_signed(),
            changed: self.number()?.cast_signed(),
            inode: self.number()?,
            mode: u32::try_from(self.number()?).ok()?,
        })
    }

    fn content(&mut self) -> Option<Content> {
        let (hash, rest) = self.0.split_first_chunk::<32>()?;
        self.0 = rest;
        Some(Content {
            hash: *hash,
            size: self.number()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Entries, TreeId) {
        let mut entries = Entries::default();
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
                object: "a1".repeat(20),
                stat,
                content,
            };
            entries.files.insert(path.to_vec(), entry);
        }
        entries.empty_directories.insert(b"empty".to_vec());
        (entries, "b2".repeat(20).parse().unwrap())
    }

    #[test]
    fn entries_read_back_for_their_tree_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("entries");
        let (entries, tree) = sample();
        assert_eq!(Entries::load(&path, &tree), Ok(None));
        entries.save(&path, &tree).unwrap();
        assert_eq!(Entries::load(&path, &tree), Ok(Some(entries)));
        let other: TreeId = "c3".repeat(20).parse().unwrap();
        assert_eq!(Entries::load(&path, &other), Ok(None));
    }

    #[test]
    fn damage_anywhere_is_noticed() {
        let (entries, tree) = sample();
        let bytes = entries.encode(&tree);
        assert_eq!(decode(&bytes), Some((tree.to_string(), entries)));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(decode(&damaged), None, "byte {at}");
            assert_eq!(decode(&bytes[..at]), None, "cut at {at}");
        }
    }

    #[test]
    fn a_folder_holds_its_paths_and_not_its_siblings() {
        let (entries, _) = sample();
        let inside: Vec<_> = entries
            .inside(b"a")
            .map(|(path, _)| path.as_slice())
            .collect();
        assert_eq!(inside, [b"a/b"]);
        assert!(!entries.has_inside(b"ab\xff"));
        assert!(entries.has_inside(b""));
    }
}

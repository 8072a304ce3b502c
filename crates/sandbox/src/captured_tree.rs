//! Cache of the entries of the last captured tree, in memory and in a file beside the sandbox.
//!
//! The cache only saves work: if it is missing, damaged or for another tree, the entries come from
//! the store and every file is read. The file is a log of changes, starting from an empty tree.
//! Each block has a hash and names the tree it starts from; reading stops at the first block that
//! does not match. Agents cannot reach the folder that contains it.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use cleveragents_ports::sandbox::{SandboxResult, TreeId};

use crate::entries::{Content, TreeChange, TreeEntries, TreeEntry};
use crate::files::{Sync, io_error, read_if_exists, replace_with_sync};
use crate::object_id::ObjectId;
use crate::safe_fs::FileStat;

const MAGIC: &[u8] = b"agents entries 2\n";

/// Below this length, the log is never rewritten.
const MAX_SMALL_LOG: u64 = 64 << 10;

#[derive(Debug)]
pub(crate) struct CapturedTree {
    pub(crate) tree: TreeId,
    pub(crate) entries: TreeEntries,
    log: EntriesLog,
}

/// The state of the log file when we last read or wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct EntriesLog {
    inode: u64,
    length: u64,
    /// Its length after the last rewrite.
    rewritten_length: u64,
}

impl CapturedTree {
    /// Loads the stored tree, whichever it is.
    pub(crate) fn load(path: &Path) -> SandboxResult<Option<Self>> {
        let Some(bytes) = read_if_exists(path)? else {
            return Ok(None);
        };
        let mut reader = EntriesLogReader(&bytes);
        let mut known: Option<Self> = None;
        while let Some((previous, tree, change)) = reader.block() {
            if previous != known.as_ref().map(|known| known.tree.clone()) {
                break;
            }
            let length = (bytes.len() - reader.0.len()) as u64;
            let mut next = known.take().unwrap_or_else(|| Self {
                tree: tree.clone(),
                entries: TreeEntries::default(),
                log: EntriesLog {
                    rewritten_length: length,
                    ..EntriesLog::default()
                },
            });
            next.entries.apply(change);
            next.tree = tree;
            next.log.length = length;
            known = Some(next);
        }
        let found = path.metadata().map_err(io_error(path))?;
        Ok(known.map(|mut known| {
            known.log.inode = found.ino();
            known
        }))
    }

    /// Writes a new log with all entries of a tree.
    pub(crate) fn create(path: &Path, tree: &TreeId, entries: TreeEntries) -> SandboxResult<Self> {
        let change = TreeChange::from(entries);
        let log = rewrite(path, tree, &change)?;
        let mut entries = TreeEntries::default();
        entries.apply(change);
        Ok(Self {
            tree: tree.clone(),
            entries,
            log,
        })
    }

    /// Creates a tree that has no log file yet.
    pub(crate) fn in_memory(tree: &TreeId, entries: TreeEntries) -> Self {
        Self {
            tree: tree.clone(),
            entries,
            log: EntriesLog::default(),
        }
    }

    /// Moves on to the next tree and logs the change.
    pub(crate) fn advance(
        &mut self,
        path: &Path,
        tree: &TreeId,
        change: TreeChange,
    ) -> SandboxResult<()> {
        let block = encode(Some(&self.tree), tree, &change);
        self.entries.apply(change);
        self.tree = tree.clone();
        let length = self.log.length + block.len() as u64;
        // Rewritten only when it has doubled, so rewriting costs no more than appending did.
        let is_short = length <= (self.log.rewritten_length * 2).max(MAX_SMALL_LOG);
        if is_short && append(path, self.log, &block).map_err(io_error(path))? {
            self.log.length = length;
        } else {
            self.log = rewrite(path, tree, &TreeChange::from(self.entries.clone()))?;
        }
        Ok(())
    }
}

fn rewrite(path: &Path, tree: &TreeId, change: &TreeChange) -> SandboxResult<EntriesLog> {
    let block = encode(None, tree, change);
    // Not synced: a torn or lost log only means that every file is read again.
    replace_with_sync(path, &block, Sync::No)?;
    let found = path.metadata().map_err(io_error(path))?;
    Ok(EntriesLog {
        inode: found.ino(),
        length: found.len(),
        rewritten_length: found.len(),
    })
}

/// Appends a block. Returns `false` if another process wrote since, or if a block is torn.
fn append(path: &Path, log: EntriesLog, block: &[u8]) -> io::Result<bool> {
    let mut file: File = match OpenOptions::new().append(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let found = file.metadata()?;
    if (found.ino(), found.len()) != (log.inode, log.length) {
        return Ok(false);
    }
    file.write_all(block)?;
    Ok(true)
}

fn encode(previous: Option<&TreeId>, tree: &TreeId, change: &TreeChange) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    bytes.extend_from_slice(MAGIC);
    let previous = previous.map(TreeId::to_string).unwrap_or_default();
    put(&mut bytes, previous.as_bytes());
    put(&mut bytes, tree.to_string().as_bytes());
    put_number(&mut bytes, change.files.len() as u64);
    for (path, entry) in &change.files {
        put(&mut bytes, path);
        put_entry(&mut bytes, entry);
    }
    put_paths(&mut bytes, change.deleted.iter());
    put_number(&mut bytes, change.folders.len() as u64);
    for (path, tree) in &change.folders {
        put(&mut bytes, path);
        put(&mut bytes, tree.as_ref().map_or(&[], ObjectId::as_bytes));
    }
    put_paths(&mut bytes, change.empty_directories.iter());
    let length = (bytes.len() - 8) as u64;
    bytes[..8].copy_from_slice(&length.to_le_bytes());
    let hash = blake3::hash(&bytes);
    bytes.extend_from_slice(hash.as_bytes());
    bytes
}

fn put_entry(bytes: &mut Vec<u8>, entry: &TreeEntry) {
    put_number(bytes, u64::from(entry.mode));
    put(bytes, entry.object.as_bytes());
    bytes.push(u8::from(entry.stat.is_some()));
    if let Some(stat) = entry.stat {
        put_number(bytes, stat.size);
        put_number(bytes, stat.modified.cast_unsigned());
        put_number(bytes, stat.changed.cast_unsigned());
        put_number(bytes, stat.inode);
        put_number(bytes, u64::from(stat.mode));
    }
    bytes.push(u8::from(entry.content.is_some()));
    if let Some(content) = entry.content {
        bytes.extend_from_slice(&content.hash);
        put_number(bytes, content.size);
    }
}

fn put_paths<'a>(bytes: &mut Vec<u8>, paths: impl ExactSizeIterator<Item = &'a Vec<u8>>) {
    put_number(bytes, paths.len() as u64);
    paths.for_each(|path| put(bytes, path));
}

fn put(bytes: &mut Vec<u8>, part: &[u8]) {
    put_number(bytes, part.len() as u64);
    bytes.extend_from_slice(part);
}

fn put_number(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(&number.to_le_bytes());
}

struct EntriesLogReader<'a>(&'a [u8]);

impl<'a> EntriesLogReader<'a> {
    /// Returns the next complete block: the old tree, the new tree, and the change.
    fn block(&mut self) -> Option<(Option<TreeId>, TreeId, TreeChange)> {
        let all = self.0;
        let length = usize::try_from(self.number()?).ok()?.checked_add(8)?;
        let (bytes, rest) = all.split_at_checked(length)?;
        let (hash, rest) = rest.split_first_chunk::<32>()?;
        if blake3::hash(bytes).as_bytes() != hash {
            return None;
        }
        let mut body = EntriesLogReader(bytes.get(8..)?.strip_prefix(MAGIC)?);
        let previous = match body.part()? {
            [] => None,
            text => Some(std::str::from_utf8(text).ok()?.parse().ok()?),
        };
        let tree = std::str::from_utf8(body.part()?).ok()?.parse().ok()?;
        let change = body.change()?;
        self.0 = rest;
        body.0.is_empty().then_some((previous, tree, change))
    }

    fn change(&mut self) -> Option<TreeChange> {
        let mut files = Vec::new();
        for _ in 0..self.number()? {
            files.push((self.part()?.to_vec(), self.entry()?));
        }
        let deleted = self.paths()?.into_iter().collect();
        let mut folders = BTreeMap::new();
        for _ in 0..self.number()? {
            let path = self.part()?.to_vec();
            let tree = match self.part()? {
                [] => None,
                bytes => Some(ObjectId::from_bytes(bytes)?),
            };
            folders.insert(path, tree);
        }
        Some(TreeChange {
            files: files.into_iter().collect(),
            deleted,
            folders,
            empty_directories: self.paths()?.into_iter().collect(),
        })
    }

    fn entry(&mut self) -> Option<TreeEntry> {
        Some(TreeEntry {
            mode: u32::try_from(self.number()?).ok()?,
            object: ObjectId::from_bytes(self.part()?)?,
            stat: self.optional(EntriesLogReader::stat)?,
            content: self.optional(EntriesLogReader::content)?,
        })
    }

    fn paths(&mut self) -> Option<Vec<Vec<u8>>> {
        let mut paths = Vec::new();
        for _ in 0..self.number()? {
            paths.push(self.part()?.to_vec());
        }
        Some(paths)
    }

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
    use std::path::PathBuf;

    use super::*;
    use crate::entries::tests::sample;

    fn tree(digits: &str) -> TreeId {
        digits.repeat(20).parse().unwrap()
    }

    fn change() -> TreeChange {
        let all = sample();
        let mut entry = all.files[&b"a/b"[..]];
        entry.stat = None;
        TreeChange {
            files: [(b"new".to_vec(), entry)].into(),
            deleted: [b"a/b".to_vec()].into(),
            folders: [(b"a".to_vec(), None), (Vec::new(), Some(entry.object))].into(),
            empty_directories: [b"other".to_vec()].into(),
        }
    }

    fn create_tree(path: &Path) -> CapturedTree {
        CapturedTree::create(path, &tree("b2"), sample()).unwrap()
    }

    fn load(path: &Path) -> Option<(TreeId, TreeEntries)> {
        let known = CapturedTree::load(path).unwrap()?;
        Some((known.tree, known.entries))
    }

    fn file() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("entries");
        (folder, path)
    }

    #[test]
    fn a_log_reads_back_change_by_change() {
        let (_folder, path) = file();
        assert_eq!(load(&path), None);
        let mut known = create_tree(&path);
        assert_eq!(load(&path), Some((tree("b2"), sample())));
        known.advance(&path, &tree("c3"), change()).unwrap();
        let mut after = sample();
        after.apply(change());
        assert_ne!(after, sample());
        assert_eq!(known.entries, after);
        assert_eq!(load(&path), Some((tree("c3"), after)));
    }

    #[test]
    fn damage_anywhere_is_detected() {
        let (_folder, path) = file();
        create_tree(&path);
        let first = std::fs::read(&path).unwrap();
        let mut known = CapturedTree::load(&path).unwrap().unwrap();
        known.advance(&path, &tree("c3"), change()).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes.starts_with(&first) && bytes.len() > first.len());
        let begun = Some((tree("b2"), sample()));
        for at in 0..bytes.len() {
            // Everything before the damage is accepted, and nothing after it.
            let expected = if at < first.len() { &None } else { &begun };
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            replace_with_sync(&path, &damaged, Sync::No).unwrap();
            assert_eq!(&load(&path), expected, "byte {at}");
            replace_with_sync(&path, &bytes[..at], Sync::No).unwrap();
            assert_eq!(&load(&path), expected, "cut at {at}");
        }
    }

    #[test]
    fn a_log_changed_by_another_is_rewritten() {
        let (_folder, path) = file();
        let mut known = create_tree(&path);
        let mut other = CapturedTree::load(&path).unwrap().unwrap();
        other
            .advance(&path, &tree("d4"), TreeChange::default())
            .unwrap();
        known.advance(&path, &tree("c3"), change()).unwrap();
        assert_eq!(load(&path), Some((tree("c3"), known.entries.clone())));
        // Nothing is appended after a torn block.
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.push(0);
        replace_with_sync(&path, &bytes, Sync::No).unwrap();
        let mut known = CapturedTree::load(&path).unwrap().unwrap();
        known
            .advance(&path, &tree("e5"), TreeChange::default())
            .unwrap();
        assert_eq!(load(&path), Some((tree("e5"), known.entries)));
    }

    #[test]
    fn a_long_log_is_rewritten() {
        let (_folder, path) = file();
        let mut known = create_tree(&path);
        let mut longest = 0;
        for _ in 0..1000 {
            let next = tree("b2");
            known.advance(&path, &next, change()).unwrap();
            longest = longest.max(path.metadata().unwrap().len());
        }
        assert!(longest <= MAX_SMALL_LOG, "{longest}");
        assert_eq!(load(&path), Some((tree("b2"), known.entries)));
    }
}

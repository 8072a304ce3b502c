//! Writes new objects of a sandbox's store without git: starting git costs more than writing the few
//! objects of a tool call.
//!
//! Objects are collected into one pack, so only three files are synced; a large file becomes a
//! loose object. [`NewObjects::persist`] writes content first, names last, all synced: a tree whose
//! name is known survives a power failure, and no half-written object is visible. The caller holds
//! the sandbox lock, so there is no other writer.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use cleveragents_ports::sandbox::{ObjectFormat, SandboxError, SandboxResult};
use cleveragents_ports::stop::StopSignal;
use flate2::Compression;
use flate2::write::ZlibEncoder;

use crate::entries::Content;
use crate::files::{io_error, remove};
use crate::object_id::{ObjectHasher, ObjectId, ObjectKind, hash_object};
use crate::pack_file::{PackFile, PackedObject};
use crate::stop_reader::StoppableReader;

/// A file up to this size is read completely before anything is written, because most files that are
/// read again are unchanged.
const MAX_IN_MEMORY: u64 = 1 << 20;

/// Bytes collected in memory; later objects are written directly.
const MAX_BUFFERED: usize = 32 << 20;

#[derive(Debug)]
pub(crate) struct NewObjects {
    folder: PathBuf,
    format: ObjectFormat,
    buffered: BTreeMap<ObjectId, PackedObject>,
    size: usize,
    /// Large objects that are written but not yet in place.
    large: Vec<(PathBuf, File, ObjectId)>,
    /// Checked between files, and between chunks of a large one.
    stop: StopSignal,
}

/// An object id, and hash and size of the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HashedBlob {
    pub(crate) object: ObjectId,
    pub(crate) content: Content,
}

impl NewObjects {
    /// Objects for the repository at `dir`.
    pub(crate) fn new(dir: &Path, format: ObjectFormat, stop: StopSignal) -> Self {
        Self {
            folder: dir.join("objects"),
            format,
            buffered: BTreeMap::new(),
            size: 0,
            large: Vec::new(),
            stop,
        }
    }

    pub(crate) fn put(&mut self, kind: ObjectKind, bytes: &[u8]) -> SandboxResult<ObjectId> {
        let object = hash_object(self.format, kind, bytes)?;
        if !self.buffered.contains_key(&object) {
            let packed = PackedObject::new(kind, bytes).map_err(io_error(&self.folder))?;
            self.size += packed.len();
            self.buffered.insert(object, packed);
        }
        Ok(object)
    }

    /// Stores a file of exactly `size` bytes, unless it is the known object. Returns `None` if
    /// there were fewer or more bytes.
    pub(crate) fn put_file(
        &mut self,
        mut from: impl Read,
        size: u64,
        known: Option<ObjectId>,
    ) -> SandboxResult<Option<HashedBlob>> {
        self.stop.check().map_err(SandboxError::Stopped)?;
        if size > MAX_IN_MEMORY || self.size > MAX_BUFFERED {
            return self.put_large(from, size, known);
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
        let read = from.by_ref().take(size + 1).read_to_end(&mut bytes);
        read.map_err(io_error(&self.folder))?;
        if bytes.len() as u64 != size {
            return Ok(None);
        }
        let content = Content {
            hash: *blake3::hash(&bytes).as_bytes(),
            size,
        };
        let object = hash_object(self.format, ObjectKind::Blob, &bytes)?;
        if known != Some(object) {
            self.put(ObjectKind::Blob, &bytes)?;
        }
        Ok(Some(HashedBlob { object, content }))
    }

    fn put_large(
        &mut self,
        from: impl Read,
        size: u64,
        known: Option<ObjectId>,
    ) -> SandboxResult<Option<HashedBlob>> {
        let path = self.folder.join(format!("agents-{}", self.large.len()));
        let mut object = ObjectHasher::new(self.format);
        let mut content = blake3::Hasher::new();
        let from = StoppableReader {
            from,
            stop: &self.stop,
        };
        let written = write_large(&path, from, size, &mut object, &mut content);
        let stopped = self.stop.check();
        if written.is_err() || stopped.is_err() {
            // Not yet in the list of files that are removed at the end.
            remove(&path)?;
        }
        stopped.map_err(SandboxError::Stopped)?;
        let (file, found) = written.map_err(io_error(&path))?;
        let object = object.finish()?;
        let is_known = known == Some(object) || self.large.iter().any(|(_, _, it)| *it == object);
        if found != size || is_known {
            remove(&path)?;
        } else {
            self.large.push((path, file, object));
        }
        let hash = *content.finalize().as_bytes();
        let content = Content { hash, size };
        Ok((found == size).then_some(HashedBlob { object, content }))
    }

    /// Moves everything into place durably.
    pub(crate) fn persist(mut self) -> SandboxResult<()> {
        self.stop.check().map_err(SandboxError::Stopped)?;
        self.persist_large()?;
        if self.buffered.is_empty() {
            return Ok(());
        }
        let PackFile { id, pack, index } = PackFile::new(self.format, &self.buffered)?;
        let folder = self.folder.join("pack");
        // The index comes last, because it makes the pack visible.
        let files = [("pack", pack), ("idx", index)];
        for (ending, bytes) in &files {
            let path = folder.join(format!("tmp_agents_{ending}"));
            let write = || -> io::Result<()> {
                let mut file = create(&path)?;
                file.write_all(bytes)?;
                file.sync_all()
            };
            write().map_err(io_error(&path))?;
        }
        for (ending, _) in &files {
            let path = folder.join(format!("tmp_agents_{ending}"));
            let target = folder.join(format!("pack-{id}.{ending}"));
            fs::rename(&path, &target).map_err(io_error(&target))?;
        }
        sync_folder(&folder)
    }

    fn persist_large(&mut self) -> SandboxResult<()> {
        let mut folders = BTreeSet::new();
        // All contents are durable before the first of them gets its final name (law 10).
        for (path, file, _) in &self.large {
            file.sync_all().map_err(io_error(path))?;
        }
        for (path, _, object) in std::mem::take(&mut self.large) {
            let name = object.to_string();
            let folder = self.folder.join(&name[..2]);
            match fs::create_dir(&folder) {
                Ok(()) => drop(folders.insert(self.folder.clone())),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(io_error(&folder)(error)),
            }
            fs::rename(&path, folder.join(&name[2..])).map_err(io_error(&path))?;
            folders.insert(folder);
        }
        folders.iter().try_for_each(|folder| sync_folder(folder))
    }
}

impl Drop for NewObjects {
    fn drop(&mut self) {
        for (path, _, _) in &self.large {
            // A file that cannot be removed is overwritten by the next call.
            let _ = fs::remove_file(path);
        }
    }
}

fn sync_folder(path: &Path) -> SandboxResult<()> {
    let synced = File::open(path).and_then(|folder| folder.sync_all());
    synced.map_err(io_error(path))
}

fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create_new(true).mode(0o444);
    match options.open(path) {
        // Left by a killed call.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            options.open(path)
        }
        opened => opened,
    }
}

/// Writes a blob that claims `size` bytes. Returns how many it has, reading at most one too many.
fn write_large(
    path: &Path,
    from: impl Read,
    size: u64,
    object: &mut ObjectHasher,
    content: &mut blake3::Hasher,
) -> io::Result<(File, u64)> {
    let mut encoder = ZlibEncoder::new(create(path)?, Compression::fast());
    let header = ObjectKind::Blob.header(size);
    object.update(&header);
    encoder.write_all(&header)?;
    let mut from = from.take(size.saturating_add(1));
    let mut buffer = vec![0; 1 << 16];
    let mut found = 0;
    loop {
        let got = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(got) => got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        object.update(&buffer[..got]);
        content.update(&buffer[..got]);
        encoder.write_all(&buffer[..got])?;
        found += got as u64;
    }
    Ok((encoder.finish()?, found))
}

#[cfg(test)]
mod tests {
    use cleveragents_ports::stop::StopReason;

    use super::*;
    use crate::stop_reader::tests::StopAfterReads;
    use crate::trees::tests::store;

    fn noise(size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size];
        blake3::Hasher::new().finalize_xof().fill(&mut bytes);
        bytes
    }

    #[test]
    fn git_reads_objects_of_every_size_in_both_formats() {
        for format in [ObjectFormat::Sha1, ObjectFormat::Sha256] {
            let folder = tempfile::tempdir().unwrap();
            let store = store(folder.path(), format);
            let mut objects = store.new_objects();
            let mut expected = Vec::new();
            for size in [
                0,
                1,
                15,
                16,
                2047,
                2048,
                300_000,
                1 << 20,
                (1 << 20) + 1,
                3 << 20,
            ] {
                let bytes = noise(size);
                let stored = objects.put_file(bytes.as_slice(), size as u64, None);
                let stored = stored.unwrap().unwrap();
                assert_eq!(stored.content, crate::convert::hash_content(&bytes));
                expected.push((stored.object, bytes));
            }
            objects.persist().unwrap();
            for (object, bytes) in expected {
                assert_eq!(store.blob(object), Ok(bytes));
            }
            store.call(["fsck", "--full", "--strict"]).run().unwrap();
            let left = fs::read_dir(folder.path().join("git/objects")).unwrap();
            let left = left
                .flatten()
                .map(|it| it.file_name().into_string().unwrap());
            assert_eq!(left.filter(|name| name.contains("agents")).count(), 0);
        }
    }

    #[test]
    fn known_or_resized_files_are_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path(), ObjectFormat::Sha1);
        for size in [10, 2 << 20] {
            let bytes = noise(size);
            let object = hash_object(ObjectFormat::Sha1, ObjectKind::Blob, &bytes).unwrap();
            let mut objects = store.new_objects();
            let mut put = |size: u64| {
                let known = Some(object);
                objects.put_file(bytes.as_slice(), size, known).unwrap()
            };
            assert_eq!(put(size as u64 - 1), None);
            assert_eq!(put(size as u64 + 1), None);
            assert_eq!(put(size as u64).unwrap().object, object);
            objects.persist().unwrap();
            assert!(store.blob(object).is_err());
        }
    }

    #[test]
    fn leftovers_of_a_killed_call_are_harmless() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path(), ObjectFormat::Sha1);
        for left in ["agents-0", "pack/tmp_agents_pack", "pack/tmp_agents_idx"] {
            drop(create(&folder.path().join("git/objects").join(left)).unwrap());
        }
        let mut objects = store.new_objects();
        let large = noise(2 << 20);
        let large = objects.put_file(large.as_slice(), 2 << 20, None).unwrap();
        let small = objects.put(ObjectKind::Blob, b"small").unwrap();
        objects.persist().unwrap();
        assert_eq!(store.blob(small), Ok(b"small".to_vec()));
        assert_eq!(store.blob(large.unwrap().object), Ok(noise(2 << 20)));
    }

    #[test]
    fn a_large_file_is_not_read_on_after_the_stop_signal() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = store(folder.path(), ObjectFormat::Sha1);
        store.stop = StopSignal::new();
        let mut objects = store.new_objects();
        let mut zeros = StopAfterReads {
            stop: store.stop.clone(),
            after: 3,
            reads: 0,
        };
        let stored = objects.put_file(&mut zeros, 1 << 40, None);
        assert_eq!(stored, Err(SandboxError::Stopped(StopReason::Cancelled)));
        assert_eq!(zeros.reads, 3);
        let left = fs::read_dir(store.dir.join("objects")).unwrap().flatten();
        let is_ours = |name: &str| name.starts_with("agents-");
        assert!(
            !left
                .into_iter()
                .any(|it| is_ours(&it.file_name().to_string_lossy()))
        );
        // After a stop nothing is started or kept either.
        assert!(objects.put_file(&b"x"[..], 1, None).is_err());
        assert!(objects.persist().is_err());
    }
}

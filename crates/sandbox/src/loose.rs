//! New objects of a sandbox's store, written without git: starting it costs more than the few
//! objects of a tool call.
//!
//! They are git's loose objects. Each is written beside the others, and only [`LooseObjects::keep`]
//! puts them in place: content first, then names, all synced, so that a tree that somebody names
//! is there after a power cut, and a half-written object never is. The caller holds the sandbox,
//! so nobody else writes here.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use cleveragents_engine::ports::sandbox::{ObjectFormat, SandboxResult};
use flate2::Compression;
use flate2::write::ZlibEncoder;

use crate::entries::Content;
use crate::files::{failed, remove};
use crate::object_id::{ObjectHasher, ObjectId, ObjectKind, id_of};

/// A file up to this size is read whole before anything is written: most that are read again are
/// as they were.
const MOST_IN_MEMORY: u64 = 4 << 20;

pub(crate) struct LooseObjects {
    folder: PathBuf,
    format: ObjectFormat,
    /// Written and not yet in place.
    written: Vec<(PathBuf, File, ObjectId)>,
    /// Folders in which a name has to last.
    folders: BTreeSet<PathBuf>,
}

/// An object, and what its bytes are to those who do not know git.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hashed {
    pub(crate) object: ObjectId,
    pub(crate) content: Content,
}

impl LooseObjects {
    /// Objects for the repository at `dir`.
    pub(crate) fn new(dir: &Path, format: ObjectFormat) -> Self {
        Self {
            folder: dir.join("objects"),
            format,
            written: Vec::new(),
            folders: BTreeSet::new(),
        }
    }

    pub(crate) fn put(&mut self, kind: ObjectKind, bytes: &[u8]) -> SandboxResult<ObjectId> {
        let object = id_of(self.format, kind, bytes)?;
        if self.is_there(object) {
            return Ok(object);
        }
        let path = self.next_path();
        let write = || -> io::Result<File> {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(&kind.header(bytes.len() as u64))?;
            encoder.write_all(bytes)?;
            let mut file = create(&path)?;
            file.write_all(&encoder.finish()?)?;
            Ok(file)
        };
        let file = write().map_err(failed(&path))?;
        self.written.push((path, file, object));
        Ok(object)
    }

    /// Stores a file of exactly `size` bytes, unless it is the object that is known; nothing if
    /// there were fewer bytes, or more.
    pub(crate) fn put_file(
        &mut self,
        mut from: impl Read,
        size: u64,
        known: Option<ObjectId>,
    ) -> SandboxResult<Option<Hashed>> {
        if size > MOST_IN_MEMORY {
            return self.put_large(from, size, known);
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
        let read = from.by_ref().take(size + 1).read_to_end(&mut bytes);
        read.map_err(failed(&self.folder))?;
        if bytes.len() as u64 != size {
            return Ok(None);
        }
        let content = Content {
            hash: *blake3::hash(&bytes).as_bytes(),
            size,
        };
        let object = id_of(self.format, ObjectKind::Blob, &bytes)?;
        if known != Some(object) {
            self.put(ObjectKind::Blob, &bytes)?;
        }
        Ok(Some(Hashed { object, content }))
    }

    fn put_large(
        &mut self,
        from: impl Read,
        size: u64,
        known: Option<ObjectId>,
    ) -> SandboxResult<Option<Hashed>> {
        let path = self.next_path();
        let mut hashers = (ObjectHasher::new(self.format), blake3::Hasher::new());
        let written = write_large(&path, from, size, &mut hashers);
        let (file, found) = written.map_err(failed(&path))?;
        let object = hashers.0.finish()?;
        if found != size || known == Some(object) || self.is_there(object) {
            remove(&path)?;
        } else {
            self.written.push((path, file, object));
        }
        let hash = *hashers.1.finalize().as_bytes();
        let content = Content { hash, size };
        Ok((found == size).then_some(Hashed { object, content }))
    }

    /// Puts everything in place, to last.
    pub(crate) fn keep(mut self) -> SandboxResult<()> {
        for (path, file, _) in &self.written {
            file.sync_all().map_err(failed(path))?;
        }
        for (path, _, object) in std::mem::take(&mut self.written) {
            let (folder, name) = self.place(object);
            match fs::create_dir(&folder) {
                Ok(()) => drop(self.folders.insert(self.folder.clone())),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(&folder)(error)),
            }
            fs::rename(&path, folder.join(name)).map_err(failed(&path))?;
            self.folders.insert(folder);
        }
        for folder in &self.folders {
            let synced = File::open(folder).and_then(|folder| folder.sync_all());
            synced.map_err(failed(folder))?;
        }
        Ok(())
    }

    /// Whether the object needs no writing. One that is in place may have been put there by a call
    /// that was killed before its name was synced.
    fn is_there(&mut self, object: ObjectId) -> bool {
        if self.written.iter().any(|(_, _, it)| *it == object) {
            return true;
        }
        let (folder, name) = self.place(object);
        let is_there = folder.join(name).is_file();
        if is_there {
            self.folders.insert(folder);
        }
        is_there
    }

    fn place(&self, object: ObjectId) -> (PathBuf, String) {
        let name = object.to_string();
        let (folder, rest) = name.split_at(2);
        (self.folder.join(folder), rest.to_owned())
    }

    fn next_path(&self) -> PathBuf {
        self.folder.join(format!("agents-{}", self.written.len()))
    }
}

impl Drop for LooseObjects {
    fn drop(&mut self) {
        for (path, _, _) in &self.written {
            // What stays is written over by the next call.
            let _ = fs::remove_file(path);
        }
    }
}

fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create_new(true).mode(0o444);
    match options.open(path) {
        // Left by a call that was killed.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            options.open(path)
        }
        opened => opened,
    }
}

/// Writes a blob that claims to have `size` bytes, and says how many it has, up to one too many.
fn write_large(
    path: &Path,
    from: impl Read,
    size: u64,
    (object, content): &mut (ObjectHasher, blake3::Hasher),
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

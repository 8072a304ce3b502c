//! Large blobs next to a SQLite database: `blobs/ab/<hash>`. They are written and synced before any
//! row references them.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cleveragents_domain::Timestamp;
use cleveragents_ports::{BlobHash, Clock, Result, StoreError};

use crate::files::{create_private_folder, map_io_error, open_private, replace, sync_folder};

/// The folder of large blobs. Staging holds `blobs.lock` shared; a sweep holds it exclusively.
#[derive(Debug, Clone)]
pub(crate) struct BlobFiles {
    folder: PathBuf,
}

/// A file in the folder that a sweep may remove.
#[derive(Debug, Clone)]
pub(crate) struct StoredFile {
    pub(crate) path: PathBuf,
    /// `None` for the remains of a staging that did not finish.
    pub(crate) hash: Option<BlobHash>,
}

impl BlobFiles {
    pub(crate) fn new(data_directory: &Path) -> Self {
        Self {
            folder: data_directory.join("blobs"),
        }
    }

    /// Writes a blob's file. If the file exists, updates its modification time so that no sweep
    /// removes it.
    pub(crate) fn stage(&self, hash: &BlobHash, bytes: &[u8], clock: &dyn Clock) -> Result<()> {
        let path = self.path(hash);
        self.stage_at(&path, bytes, clock)
            .map_err(|e| map_io_error(&path, &e))
    }

    fn stage_at(&self, path: &Path, bytes: &[u8], clock: &dyn Clock) -> io::Result<()> {
        let lock = self.open_lock_file()?;
        lock.lock_shared()?;
        let folder = path.parent().unwrap_or(&self.folder);
        create_private_folder(folder)?;
        // Another process may have created the folders and crashed before syncing them, so every
        // staging syncs.
        sync_folder(&self.folder)?;
        if let Some(data_directory) = self.folder.parent() {
            sync_folder(data_directory)?;
        }
        // The existing file may have been damaged, so its content is compared.
        // A reader may open the file at any moment, so an existing one is replaced by a rename,
        // never written in place (law 10).
        if !fs::read(path).is_ok_and(|found| found == bytes) {
            // Two stagings of one blob in one process must not share a temporary file.
            let thread = format!("{:?}", std::thread::current().id());
            let unique: String = thread.chars().filter(char::is_ascii_digit).collect();
            let temporary = path.with_extension(format!("{}-{unique}.tmp", std::process::id()));
            replace(path, &temporary, bytes)?;
        }
        // The sweep compares against the same clock, so the modification time is set from it.
        let now = Duration::from_micros(clock.now().as_micros().unsigned_abs());
        open_private(path)?.set_modified(std::time::UNIX_EPOCH + now)
    }

    pub(crate) fn read(&self, hash: &BlobHash) -> Result<Vec<u8>> {
        let path = self.path(hash);
        fs::read(&path).map_err(|e| StoreError::Corrupt {
            path: path.clone(),
            reason: format!("a blob cannot be read: {e}"),
        })
    }

    /// Prevents the removal of any file until the returned guard is dropped.
    pub(crate) fn lock_shared(&self) -> Result<File> {
        let hold = || -> io::Result<File> {
            let lock = self.open_lock_file()?;
            lock.lock_shared()?;
            Ok(lock)
        };
        hold().map_err(|e| map_io_error(&self.folder, &e))
    }

    /// Returns the files last touched before `cutoff`.
    pub(crate) fn older_than(&self, cutoff: Timestamp) -> Result<Vec<StoredFile>> {
        if !self.folder.exists() {
            return Ok(Vec::new());
        }
        self.list(cutoff)
            .map_err(|e| map_io_error(&self.folder, &e))
    }

    /// Removes those of `files` that were not touched since `cutoff`. The exclusive lock keeps
    /// stagings out meanwhile.
    pub(crate) fn remove(&self, files: &[StoredFile], cutoff: Timestamp) -> Result<u64> {
        if files.is_empty() {
            return Ok(0);
        }
        let remove = || -> io::Result<u64> {
            let lock = self.open_lock_file()?;
            lock.lock()?;
            let mut removed = 0;
            for file in files {
                // Another process may collect at the same time, so a missing file is not an error.
                let facts = fs::metadata(&file.path);
                // The age is read again under the lock: a staging may have touched the file since
                // it was listed.
                if facts.is_ok_and(|facts| modified_at(&facts).is_ok_and(|at| at < cutoff)) {
                    removed += u64::from(fs::remove_file(&file.path).is_ok());
                }
            }
            Ok(removed)
        };
        remove().map_err(|e| map_io_error(&self.folder, &e))
    }

    fn list(&self, cutoff: Timestamp) -> io::Result<Vec<StoredFile>> {
        let mut files = Vec::new();
        for folder in fs::read_dir(&self.folder)? {
            let folder = folder?.path();
            if !folder.is_dir() {
                continue;
            }
            for entry in fs::read_dir(folder)? {
                let entry = entry?;
                let facts = entry.metadata();
                if facts.is_ok_and(|facts| modified_at(&facts).is_ok_and(|at| at < cutoff)) {
                    let name = entry.file_name().to_string_lossy().into_owned();
                    files.push(StoredFile {
                        path: entry.path(),
                        hash: name.parse().ok(),
                    });
                }
            }
        }
        Ok(files)
    }

    fn path(&self, hash: &BlobHash) -> PathBuf {
        let text = hash.as_str();
        self.folder.join(&text[..2]).join(text)
    }

    fn open_lock_file(&self) -> io::Result<File> {
        create_private_folder(&self.folder)?;
        open_private(&self.folder.join("blobs.lock"))
    }
}

fn modified_at(facts: &fs::Metadata) -> io::Result<Timestamp> {
    let age = facts.modified()?.duration_since(std::time::UNIX_EPOCH);
    // A file dated before 1970 counts as old as possible; a sweep still removes it only if no row
    // needs it.
    Ok(Timestamp::default().after(age.unwrap_or_default()))
}

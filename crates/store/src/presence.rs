//! Tracks which processes use a data directory. Each holds an OS lock on `run/<owner>.lock` while
//! it runs. The kernel releases the lock when the process dies, however it dies, so a free lock
//! proves that the process is dead.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use cleveragents_domain::Timestamp;
use cleveragents_domain::id::OwnerId;
use cleveragents_ports::{Liveness, OwnerStatus, Result};
use serde::{Deserialize, Serialize};

use crate::files::{create_private_folder, map_io_error, open_private};

/// The description of a process in its lock file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProcessInfo {
    pub pid: u32,
    pub command: String,
    pub since: Timestamp,
}

/// This process's presence in a data directory. It ends when dropped or when the process dies.
#[derive(Debug)]
pub struct ProcessPresence {
    folder: PathBuf,
    node: String,
    owner: OwnerId,
    /// Holds the OS lock.
    _file: File,
    /// Whether the file stays when this process ends.
    keep_lock_file: AtomicBool,
}

impl ProcessPresence {
    /// Registers `owner`, a fresh id, in `<data directory>/run`.
    pub fn announce(
        data_directory: &Path,
        node: String,
        owner: OwnerId,
        info: &ProcessInfo,
    ) -> Result<Self> {
        let folder = data_directory.join("run");
        let file = create_lock_file(&folder, owner, info).map_err(|e| map_io_error(&folder, &e))?;
        Ok(Self {
            folder,
            node,
            owner,
            _file: file,
            keep_lock_file: AtomicBool::new(false),
        })
    }

    pub fn owner(&self) -> OwnerId {
        self.owner
    }

    /// Returns the live processes that use the directory, except this one.
    pub fn other_processes(&self) -> Result<Vec<ProcessInfo>> {
        let io_error = |e: io::Error| map_io_error(&self.folder, &e);
        let mut processes = Vec::new();
        for (owner, path) in lock_files(&self.folder).map_err(io_error)? {
            if owner != self.owner
                && probe(&path) == OwnerStatus::Alive
                && let Some(info) = read_process_info(&path)
            {
                processes.push(info);
            }
        }
        Ok(processes)
    }

    /// Returns what a live process of this directory wrote about itself.
    pub fn process_info(&self, owner: OwnerId) -> Option<ProcessInfo> {
        let path = lock_path(&self.folder, owner);
        (probe(&path) == OwnerStatus::Alive).then(|| read_process_info(&path))?
    }

    /// Counts the lock files of dead processes that are not in `keep`. With `remove`, deletes them.
    pub fn sweep(&self, keep: &HashSet<OwnerId>, remove: bool) -> Result<u64> {
        let io_error = |e: io::Error| map_io_error(&self.folder, &e);
        let mut swept = 0;
        for (owner, path) in lock_files(&self.folder).map_err(io_error)? {
            if owner == self.owner || keep.contains(&owner) {
                continue;
            }
            // A process that is just registering may not hold its lock yet. Removing its file under
            // the exclusive lock is safe, because it checks afterwards that its file still exists
            // (see `create_lock_file`).
            // The file may have been removed since it was listed.
            let Ok(file) = File::open(&path) else {
                continue;
            };
            if file.try_lock().is_ok() {
                swept += 1;
                if remove {
                    // The file may already be gone.
                    let _ = fs::remove_file(&path);
                }
            }
        }
        Ok(swept)
    }
}

impl Liveness for ProcessPresence {
    fn node(&self) -> &str {
        &self.node
    }

    fn owner_status(&self, owner: OwnerId) -> OwnerStatus {
        if owner == self.owner {
            return OwnerStatus::Alive;
        }
        probe(&lock_path(&self.folder, owner))
    }

    fn process_id(&self, owner: OwnerId) -> Option<u32> {
        self.process_info(owner).map(|process| process.pid)
    }

    fn keep_lock_file(&self) {
        // Relaxed is enough: the flag guards no other memory, and the process reads it when it
        // ends.
        self.keep_lock_file.store(true, Ordering::Relaxed);
    }
}

impl Drop for ProcessPresence {
    fn drop(&mut self) {
        // A process that may still own runs or locks leaves its file behind as proof of its death.
        // Otherwise the file is garbage that a collection would remove.
        if !self.keep_lock_file.load(Ordering::Relaxed) {
            let _ = fs::remove_file(lock_path(&self.folder, self.owner));
        }
    }
}

fn lock_path(folder: &Path, owner: OwnerId) -> PathBuf {
    folder.join(format!("{owner}.lock"))
}

fn create_lock_file(folder: &Path, owner: OwnerId, info: &ProcessInfo) -> io::Result<File> {
    create_private_folder(folder)?;
    let path = lock_path(folder, owner);
    loop {
        let mut file = open_private(&path)?;
        file.lock()?;
        // A sweep may have removed the file between opening and locking it. A lock on an unlinked
        // file is invisible to other processes.
        let named = fs::metadata(&path).is_ok_and(|found| {
            file.metadata()
                .is_ok_and(|held| held.ino() == found.ino() && held.dev() == found.dev())
        });
        if named {
            file.write_all(&serde_json::to_vec(info)?)?;
            return Ok(file);
        }
    }
}

/// Uses a shared lock so that concurrent probes do not block each other.
fn probe(path: &Path) -> OwnerStatus {
    match File::open(path) {
        Ok(file) if file.try_lock_shared().is_ok() => OwnerStatus::Dead,
        Ok(_) => OwnerStatus::Alive,
        // Without a file there is no proof of death: the owner may run in another directory with a
        // copied node name.
        Err(_) => OwnerStatus::Unknown,
    }
}

fn read_process_info(path: &Path) -> Option<ProcessInfo> {
    let mut text = String::new();
    File::open(path)
        .ok()?
        // Foreign content must not fill memory; a description is far shorter.
        .take(4096)
        .read_to_string(&mut text)
        .ok()?;
    serde_json::from_str(&text).ok()
}

fn lock_files(folder: &Path) -> io::Result<Vec<(OwnerId, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let owner = path.file_stem().and_then(|stem| stem.to_str());
        if let Some(owner) = owner.and_then(|stem| stem.parse().ok()) {
            files.push((owner, path));
        }
    }
    Ok(files)
}

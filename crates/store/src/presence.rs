//! Which processes use a data directory: each holds an OS lock on `run/<owner>.lock` while it
//! lives. The kernel frees the lock when the process dies, however it dies, so a free lock is
//! proof of death.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use cleveragents_domain::Timestamp;
use cleveragents_domain::id::OwnerId;
use cleveragents_engine::ports::{Liveness, OwnerStatus, Result};
use serde::{Deserialize, Serialize};

use crate::files::{create_private_folder, map_io_error, open_private};

/// What a process says of itself in its lock file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProcessInfo {
    pub pid: u32,
    pub command: String,
    pub since: Timestamp,
}

/// This process's presence in a data directory; ends when dropped or when the process dies.
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
    /// Announces `owner`, a fresh id, in `<data directory>/run`.
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

    /// The live processes that use the directory, this one left out.
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

    /// What a live process of this directory says of itself.
    pub fn process_info(&self, owner: OwnerId) -> Option<ProcessInfo> {
        let path = lock_path(&self.folder, owner);
        (probe(&path) == OwnerStatus::Alive).then(|| read_process_info(&path))?
    }

    /// Lock files of the dead that are not in `keep`; with `remove`, they are taken away. Returns
    /// their number.
    pub fn sweep(&self, keep: &HashSet<OwnerId>, remove: bool) -> Result<u64> {
        let io_error = |e: io::Error| map_io_error(&self.folder, &e);
        let mut swept = 0;
        for (owner, path) in lock_files(&self.folder).map_err(io_error)? {
            if owner == self.owner || keep.contains(&owner) {
                continue;
            }
            // The exclusive lock keeps a process that is just announcing itself from being
            // mistaken for a dead one: it checks that its file is still there (see `create_lock_file`).
            let Ok(file) = File::open(&path) else {
                continue;
            };
            if file.try_lock().is_ok() {
                swept += 1;
                if remove {
                    // Gone already is as good.
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

    fn keep_lock_file(&self) {
        self.keep_lock_file.store(true, Ordering::Relaxed);
    }
}

impl Drop for ProcessPresence {
    fn drop(&mut self) {
        // Who may still own something leaves the file behind, as proof of its death. To others it
        // is only rubbish, which a collection takes.
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
        // A sweep may have removed the file between opening and locking it: a lock on a file
        // without a name protects nobody.
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

/// A shared lock tells without getting into the way of others who ask the same.
fn probe(path: &Path) -> OwnerStatus {
    match File::open(path) {
        Ok(file) if file.try_lock_shared().is_ok() => OwnerStatus::Dead,
        Ok(_) => OwnerStatus::Alive,
        // No file, no proof: the owner may live in another directory under a copied node name.
        Err(_) => OwnerStatus::Unknown,
    }
}

fn read_process_info(path: &Path) -> Option<ProcessInfo> {
    let mut text = String::new();
    File::open(path)
        .ok()?
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

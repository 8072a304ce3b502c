//! Short-lived folders of this process in the data directory.
//!
//! A process takes the first slot whose lock is free. What a killed process left in a slot is removed
//! by the next process that takes it, so at most one folder per concurrent process is left behind.

use std::fs::{File, OpenOptions, TryLockError};
use std::ops::Deref;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cleveragents_ports::sandbox::{SandboxError, SandboxResult};

use crate::files::{create_private_folder, io_error, remove};

/// Maximum number of processes that can use one data directory at the same time.
const MAX_SLOTS: u32 = 10_000;

/// Creates folders that are removed with their handles. Clones share one slot.
#[derive(Debug, Clone)]
pub(crate) struct Scratch(Arc<ScratchState>);

#[derive(Debug)]
struct ScratchState {
    root: PathBuf,
    slot: Mutex<Option<Slot>>,
    next: AtomicU64,
}

/// A slot that this process holds, taken on first use.
#[derive(Debug)]
struct Slot {
    folder: PathBuf,
    /// Released when the process ends.
    _lock: File,
}

/// A folder that is removed on drop.
#[derive(Debug)]
pub(crate) struct ScratchFolder {
    path: PathBuf,
    /// Keeps the slot as long as the folder is used.
    _scratch: Scratch,
}

impl Scratch {
    /// Nothing is written until the first folder is created.
    pub(crate) fn new(root: PathBuf) -> Self {
        Self(Arc::new(ScratchState {
            root,
            slot: Mutex::new(None),
            next: AtomicU64::new(0),
        }))
    }

    /// Creates an empty folder.
    pub(crate) fn create_folder(&self) -> SandboxResult<ScratchFolder> {
        let mut slot = self.0.slot.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = match &*slot {
            Some(slot) => slot.folder.clone(),
            None => {
                let taken = Slot::acquire(&self.0.root)?;
                let folder = taken.folder.clone();
                *slot = Some(taken);
                folder
            }
        };
        drop(slot);
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(number.to_string());
        create_private_folder(&path)?;
        Ok(ScratchFolder {
            path,
            _scratch: self.clone(),
        })
    }
}

impl Slot {
    fn acquire(root: &Path) -> SandboxResult<Self> {
        create_private_folder(root)?;
        for number in 0..MAX_SLOTS {
            let path = root.join(format!("{number}.lock"));
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).mode(0o600);
            let lock = options
                .truncate(false)
                .open(&path)
                .map_err(io_error(&path))?;
            match lock.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => continue,
                Err(TryLockError::Error(error)) => return Err(io_error(&path)(error)),
            }
            let folder = root.join(number.to_string());
            remove(&folder)?;
            create_private_folder(&folder)?;
            return Ok(Self {
                folder,
                _lock: lock,
            });
        }
        Err(SandboxError::Io {
            path: root.to_owned(),
            reason: format!("more than {MAX_SLOTS} processes use this folder"),
        })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next process with this slot.
        let _ = remove(&self.folder);
    }
}

impl Deref for ScratchFolder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        let _ = remove(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_removed_with_their_handles() {
        let root = tempfile::tempdir().unwrap();
        let (first, second) = (
            Scratch::new(root.path().to_owned()),
            Scratch::new(root.path().to_owned()),
        );
        let (a, b) = (
            first.create_folder().unwrap(),
            first.create_folder().unwrap(),
        );
        let c = second.create_folder().unwrap();
        assert!(a.is_dir() && b.is_dir() && c.is_dir());
        assert_eq!(a.parent(), b.parent());
        assert_ne!(a.parent(), c.parent());
        let path = a.to_owned();
        drop(a);
        assert!(!path.exists() && b.is_dir());
        drop((first, b));
        assert!(!root.path().join("0").exists());
    }

    #[test]
    fn leftovers_of_a_killed_process_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let left = root.path().join("0/7");
        create_private_folder(&left).unwrap();
        let folder = Scratch::new(root.path().to_owned())
            .create_folder()
            .unwrap();
        assert!(!left.exists() && folder.starts_with(root.path().join("0")));
    }
}

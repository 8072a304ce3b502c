//! The lock that passes write access between processes.
//!
//! SQLite's own busy waiting is unfair: of eight processes some would almost never write. The
//! kernel queues the waiters of this file lock. A batch takes milliseconds, so a holder that keeps
//! the lock for long is stuck: waiting then fails and names it.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use cleveragents_ports::{Result, StoreError};

use crate::directory::DataDirectory;
use crate::files::{map_io_error, open_private};

/// Longest wait for the lock.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(20);

pub(super) struct WriterLock {
    file: File,
    path: PathBuf,
}

/// Held while this process may write.
pub(super) enum WriterLockGuard<'a> {
    Immediate(&'a File),
    /// Closing the file releases the lock.
    Queued(#[expect(dead_code, reason = "closing it ends the turn")] File),
}

impl Drop for WriterLockGuard<'_> {
    fn drop(&mut self) {
        if let Self::Immediate(file) = self
            && let Err(error) = file.unlock()
        {
            tracing::error!(%error, "the writer's lock could not be released");
        }
    }
}

impl WriterLock {
    pub(super) fn open(directory: &DataDirectory) -> Result<Self> {
        let path = directory.path().join("writer.lock");
        let file = open_private(&path).map_err(|e| map_io_error(&path, &e))?;
        Ok(Self { file, path })
    }

    pub(super) fn acquire(&self) -> Result<WriterLockGuard<'_>> {
        self.acquire_within(ACQUIRE_TIMEOUT)
    }

    fn acquire_within(&self, limit: Duration) -> Result<WriterLockGuard<'_>> {
        // The free lock is taken without a thread; only waiting needs one.
        match self.file.try_lock() {
            Ok(()) => return Ok(WriterLockGuard::Immediate(&self.file)),
            Err(std::fs::TryLockError::WouldBlock) => {}
            Err(std::fs::TryLockError::Error(error)) => {
                return Err(map_io_error(&self.path, &error));
            }
        }
        // Opened separately for each call: a call that times out must not release the lock of a
        // later call.
        let file = open_private(&self.path).map_err(|e| map_io_error(&self.path, &e))?;
        match LockWaiter::wait(file, limit) {
            Ok(Some(file)) => Ok(WriterLockGuard::Queued(file)),
            Ok(None) => Err(StoreError::InUse {
                holders: vec![describe_holder(&self.path)],
            }),
            Err(error) => Err(map_io_error(&self.path, &error)),
        }
    }
}

/// A place in the kernel's queue. A thread holds it, because waiting there has no timeout.
struct LockWaiter {
    state: Mutex<LockWaiterState>,
    changed: Condvar,
}

enum LockWaiterState {
    Waiting,
    Locked(File),
    Failed(io::Error),
    Abandoned,
}

impl LockWaiter {
    /// Returns the locked file, or `None` after `limit`.
    fn wait(file: File, limit: Duration) -> io::Result<Option<File>> {
        let queue = Arc::new(Self {
            state: Mutex::new(LockWaiterState::Waiting),
            changed: Condvar::new(),
        });
        let thread = Arc::clone(&queue);
        let waiting = move || {
            let locked = file.lock();
            let mut state = thread.state.lock().unwrap_or_else(PoisonError::into_inner);
            // After a timeout the file is closed here, which releases the lock.
            if matches!(*state, LockWaiterState::Waiting) {
                *state = match locked {
                    Ok(()) => LockWaiterState::Locked(file),
                    Err(error) => LockWaiterState::Failed(error),
                };
                thread.changed.notify_one();
            }
        };
        std::thread::Builder::new()
            .name("store-queue".to_owned())
            .spawn(waiting)?;
        let state = queue.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_waiting = |state: &mut LockWaiterState| matches!(state, LockWaiterState::Waiting);
        let waited = queue.changed.wait_timeout_while(state, limit, is_waiting);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        // From here on the thread finds `Abandoned` and releases the lock itself if it gets it
        // later.
        match std::mem::replace(&mut *state, LockWaiterState::Abandoned) {
            LockWaiterState::Locked(file) => Ok(Some(file)),
            LockWaiterState::Failed(error) => Err(error),
            LockWaiterState::Waiting | LockWaiterState::Abandoned => Ok(None),
        }
    }
}

/// Describes the holder of the lock, if the kernel reports it.
fn describe_holder(path: &Path) -> String {
    let inode = std::fs::metadata(path).map(|found| found.ino());
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let process = inode
        .ok()
        .and_then(|inode| parse_lock_holder(&locks, inode));
    match process {
        Some(process) => format!(
            "process {process} has kept it from writing for {} seconds and may be stopped",
            ACQUIRE_TIMEOUT.as_secs()
        ),
        None => "a process that may be stopped".to_owned(),
    }
}

/// Finds the process that holds a lock on this file: `1: FLOCK ADVISORY WRITE 4711 fe:00:1234 0
/// EOF`.
fn parse_lock_holder(locks: &str, inode: u64) -> Option<u32> {
    // Lines with an arrow are waiters, not holders.
    let held = locks.lines().filter(|line| !line.contains("->"));
    let mut fields = held.map(|line| line.split_whitespace().collect::<Vec<&str>>());
    let found = fields.find(|it| {
        let file = it.get(5).and_then(|file| file.rsplit(':').next());
        it.get(1) == Some(&"FLOCK") && file.and_then(|it| it.parse().ok()) == Some(inode)
    });
    found.and_then(|it| it.get(4)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timed_out_wait_releases_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("writer.lock");
        let lock = WriterLock {
            file: open_private(&path).unwrap(),
            path: path.clone(),
        };
        let other = open_private(&path).unwrap();
        other.lock().unwrap();
        let refused = lock.acquire_within(Duration::from_millis(20)).err();
        let own = format!("process {} ", std::process::id());
        assert!(
            matches!(&refused, Some(StoreError::InUse { holders }) if holders[0].starts_with(&own)),
            "{refused:?}"
        );
        other.unlock().unwrap();
        // The timed-out waiter releases the lock as soon as it gets it.
        let guard = lock.acquire_within(ACQUIRE_TIMEOUT).unwrap();
        assert!(other.try_lock().is_err());
        drop(guard);
        other.lock().unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| lock.acquire_within(ACQUIRE_TIMEOUT).map(drop));
            other.unlock().unwrap();
            waiting.join().unwrap().unwrap();
        });
    }

    #[test]
    fn only_the_lock_holder_is_reported() {
        let locks = "1: POSIX  ADVISORY  WRITE 1 fe:00:77 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 2 fe:00:77 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 3 fe:00:77 0 EOF\n";
        assert_eq!(parse_lock_holder(locks, 77), Some(3));
        assert_eq!(parse_lock_holder(locks, 7), None);
    }
}

//! The lock that hands the database from process to process.
//!
//! SQLite's own waiting is a lottery: of eight processes some would hardly ever get a turn. The system
//! keeps those who wait for this lock in a queue. A turn takes milliseconds, so a holder that keeps it
//! for long is stopped: then waiting ends and names it.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use cleveragents_engine::ports::{Result, StoreError};

use crate::directory::DataDirectory;
use crate::files::{explain, open_private};

/// How long the queue may stand still.
const LIMIT: Duration = Duration::from_secs(20);

pub(super) struct WriterLock {
    file: File,
    path: PathBuf,
}

/// This process's turn to write.
pub(super) enum Turn<'a> {
    Free(&'a File),
    /// The lock goes with its file.
    Waited(#[expect(dead_code, reason = "closing it ends the turn")] File),
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Self::Free(file) = self
            && let Err(error) = file.unlock()
        {
            tracing::error!(%error, "the writer's lock could not be given back");
        }
    }
}

impl WriterLock {
    pub(super) fn open(directory: &DataDirectory) -> Result<Self> {
        let path = directory.path().join("writer.lock");
        let file = open_private(&path).map_err(|e| explain(&path, &e))?;
        Ok(Self { file, path })
    }

    pub(super) fn acquire(&self) -> Result<Turn<'_>> {
        self.acquire_within(LIMIT)
    }

    fn acquire_within(&self, limit: Duration) -> Result<Turn<'_>> {
        match self.file.try_lock() {
            Ok(()) => return Ok(Turn::Free(&self.file)),
            Err(std::fs::TryLockError::WouldBlock) => {}
            Err(std::fs::TryLockError::Error(error)) => return Err(explain(&self.path, &error)),
        }
        // A file of its own: giving up must not release the turn of a later call.
        let file = open_private(&self.path).map_err(|e| explain(&self.path, &e))?;
        match Queue::wait(file, limit) {
            Ok(Some(file)) => Ok(Turn::Waited(file)),
            Ok(None) => Err(StoreError::InUse {
                holders: vec![holder(&self.path)],
            }),
            Err(error) => Err(explain(&self.path, &error)),
        }
    }
}

/// A place in the system's queue, which a thread keeps because waiting there has no limit.
struct Queue {
    state: Mutex<Place>,
    changed: Condvar,
}

enum Place {
    Waiting,
    Locked(File),
    Failed(io::Error),
    GivenUp,
}

impl Queue {
    /// Returns the file once it is locked, or nothing after `limit`.
    fn wait(file: File, limit: Duration) -> io::Result<Option<File>> {
        let queue = Arc::new(Self {
            state: Mutex::new(Place::Waiting),
            changed: Condvar::new(),
        });
        let thread = Arc::clone(&queue);
        let waiting = move || {
            let locked = file.lock();
            let mut place = thread.state.lock().unwrap_or_else(PoisonError::into_inner);
            // Given up means that the file closes here, and the lock with it.
            if matches!(*place, Place::Waiting) {
                *place = match locked {
                    Ok(()) => Place::Locked(file),
                    Err(error) => Place::Failed(error),
                };
                thread.changed.notify_one();
            }
        };
        std::thread::Builder::new()
            .name("store-queue".to_owned())
            .spawn(waiting)?;
        let place = queue.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_waiting = |place: &mut Place| matches!(place, Place::Waiting);
        let waited = queue.changed.wait_timeout_while(place, limit, is_waiting);
        let (mut place, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *place, Place::GivenUp) {
            Place::Locked(file) => Ok(Some(file)),
            Place::Failed(error) => Err(error),
            Place::Waiting | Place::GivenUp => Ok(None),
        }
    }
}

/// Who has the lock, as far as the system says.
fn holder(path: &Path) -> String {
    let inode = std::fs::metadata(path).map(|found| found.ino());
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let process = inode.ok().and_then(|inode| holder_in(&locks, inode));
    match process {
        Some(process) => format!(
            "process {process} has kept it from writing for {} seconds and may be stopped",
            LIMIT.as_secs()
        ),
        None => "a process that may be stopped".to_owned(),
    }
}

/// The process with a lock on this file: `1: FLOCK ADVISORY WRITE 4711 fe:00:1234 0 EOF`.
fn holder_in(locks: &str, inode: u64) -> Option<u32> {
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
    fn waiting_ends_and_giving_up_releases_nothing() {
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
        // The one who gave up passes the lock on as soon as it gets it.
        let turn = lock.acquire_within(LIMIT).unwrap();
        assert!(other.try_lock().is_err());
        drop(turn);
        other.lock().unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| lock.acquire_within(LIMIT).map(drop));
            other.unlock().unwrap();
            waiting.join().unwrap().unwrap();
        });
    }

    #[test]
    fn only_who_has_the_lock_is_named() {
        let locks = "1: POSIX  ADVISORY  WRITE 1 fe:00:77 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 2 fe:00:77 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 3 fe:00:77 0 EOF\n";
        assert_eq!(holder_in(locks, 77), Some(3));
        assert_eq!(holder_in(locks, 7), None);
    }
}

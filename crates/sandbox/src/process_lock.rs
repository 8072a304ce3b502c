//! The lock that serialises our own processes in a repository or folder.
//!
//! Waiting is bounded, because the holder may be suspended. The timeout is per holder, so a long
//! queue that makes progress is waited for.

use std::fs::{File, OpenOptions};
use std::io::{Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use cleveragents_ports::sandbox::{SandboxError, SandboxResult};

use crate::files::{create_private_folder, io_error, read_if_exists};

/// Longest wait for one holder.
const HOLDER_TIMEOUT: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(5);

/// Acquires the lock. Fails with the name of the holder after the timeout. The lock is released when
/// the file and all inherited copies of its descriptor are closed.
pub(crate) fn acquire(path: &Path) -> SandboxResult<File> {
    acquire_within(path, HOLDER_TIMEOUT)
}

fn acquire_within(path: &Path, timeout: Duration) -> SandboxResult<File> {
    let mut file = open(path)?;
    let mut last_change = None;
    let mut since = Instant::now();
    loop {
        if try_lock(&mut file).map_err(io_error(path))? {
            return Ok(file);
        }
        let now = lock_time(&file).map_err(io_error(path))?;
        if last_change != Some(now) {
            (last_change, since) = (Some(now), Instant::now());
        } else if since.elapsed() >= timeout {
            return Err(SandboxError::InUse {
                path: path.to_owned(),
                holder: read_holder(path)?,
            });
        }
        thread::sleep(PAUSE);
    }
}

/// Acquires the lock if it is free.
pub(crate) fn try_acquire(path: &Path) -> SandboxResult<Option<File>> {
    let mut file = open(path)?;
    let is_taken = try_lock(&mut file).map_err(io_error(path))?;
    Ok(is_taken.then_some(file))
}

fn open(path: &Path) -> SandboxResult<File> {
    if let Some(folder) = path.parent() {
        create_private_folder(folder)?;
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.mode(0o600).open(path).map_err(io_error(path))
}

/// Locks the file and writes the holder's name. Returns whether the lock was free.
fn try_lock(file: &mut File) -> std::io::Result<bool> {
    match file.try_lock() {
        Ok(()) => write_holder(file).map(|()| true),
        Err(std::fs::TryLockError::WouldBlock) => Ok(false),
        Err(std::fs::TryLockError::Error(error)) => Err(error),
    }
}

/// Writes who holds the lock. The new modification time also shows waiters that the holder changed.
fn write_holder(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    write!(file, "process {}", std::process::id())
}

fn lock_time(file: &File) -> std::io::Result<(i64, i64)> {
    let found = file.metadata()?;
    Ok((found.mtime(), found.mtime_nsec()))
}

fn read_holder(path: &Path) -> SandboxResult<String> {
    let text = read_if_exists(path)?.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let text = text.trim();
    Ok(if text.is_empty() {
        "another process".to_owned()
    } else {
        text.to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_and_names_the_holder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks/a.lock");
        let held = acquire_within(&path, HOLDER_TIMEOUT).unwrap();
        let refused = acquire_within(&path, Duration::from_millis(20)).unwrap_err();
        let holder = format!("process {}", std::process::id());
        assert_eq!(
            refused,
            SandboxError::InUse {
                path: path.clone(),
                holder
            }
        );
        drop(held);
        acquire_within(&path, Duration::ZERO).unwrap();
    }
}

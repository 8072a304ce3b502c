//! Atomic file replacement (law 10): write a temporary file beside the target, fsync, rename, fsync
//! the directory. Processes that share a file take an OS lock.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Timeout for a lock that another process holds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The permissions of new files and directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privacy {
    /// Only the user: 0600 and 0700.
    Private,
    /// As the user's umask allows.
    Shared,
}

impl Privacy {
    fn file_mode(self) -> u32 {
        match self {
            Self::Private => 0o600,
            Self::Shared => 0o666,
        }
    }

    fn directory_mode(self) -> u32 {
        match self {
            Self::Private => 0o700,
            Self::Shared => 0o777,
        }
    }
}

/// An exclusive OS lock, released on drop or when the process dies.
#[derive(Debug)]
pub struct FileLock {
    _file: File,
}

impl FileLock {
    /// Locks a file; creates it if missing. The lock file is never removed: a removed and recreated
    /// file would let two processes lock two different files of the same name.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(Privacy::Private.file_mode())
            .custom_flags(no_follow())
            .open(path)?;
        Self::acquire(file)
    }

    /// Locks a directory itself, for places where a lock file would be visible to the user.
    pub fn of_directory(path: &Path) -> io::Result<Self> {
        Self::acquire(File::open(path)?)
    }

    fn acquire(file: File) -> io::Result<Self> {
        let started = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::WouldBlock) if started.elapsed() < LOCK_TIMEOUT => {
                    sleep(LOCK_POLL_INTERVAL);
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(io::Error::new(
                        io::ErrorKind::WouldBlock,
                        "another process has held the lock for too long",
                    ));
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }
}

/// Creates a directory and its parents.
pub fn create_directory(path: &Path, privacy: Privacy) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(privacy.directory_mode())
        .create(path)
}

/// Replaces a file atomically: a reader sees the old or the new content, even after a power
/// failure. Callers that share the file must hold a [`FileLock`].
pub fn replace(path: &Path, content: &[u8], privacy: Privacy) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let beside = temporary_name(path)?;
    // A leftover of a process that died here.
    // Safe under the lock: no live writer has this name in use.
    match std::fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let written = write_new(&beside, content, privacy).and_then(|()| {
        std::fs::rename(&beside, path)?;
        File::open(directory)?.sync_all()
    });
    if written.is_err() {
        // Cleanup errors are ignored: the first error is reported, and the next writer removes the
        // leftover.
        let _ = std::fs::remove_file(&beside);
    }
    written
}

fn write_new(path: &Path, content: &[u8], privacy: Privacy) -> io::Result<()> {
    // `create_new` also refuses a symbolic link that was planted under this name.
    let mut file = OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(privacy.file_mode())
        .open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

fn temporary_name(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "the path does not name a file")
    })?;
    let mut beside = name.to_owned();
    beside.push(".new");
    Ok(path.with_file_name(beside))
}

/// The flag that makes opening a symbolic link an error; another user may have planted the link.
fn no_follow() -> i32 {
    i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_file_is_replaced_with_its_mode_and_nothing_is_left_beside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        replace(&path, b"one", Privacy::Private).unwrap();
        replace(&path, b"two", Privacy::Private).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn planted_links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        replace(&victim, b"precious", Privacy::Private).unwrap();
        symlink(&victim, folder.path().join("file.new")).unwrap();
        symlink(&victim, folder.path().join("lock")).unwrap();
        replace(&folder.path().join("file"), b"new", Privacy::Private).unwrap();
        assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
        assert!(FileLock::of_file(&folder.path().join("lock")).is_err());
    }

    #[test]
    fn a_lock_is_exclusive_until_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let lock = FileLock::of_file(&path).unwrap();
        let other = File::open(&path).unwrap();
        assert!(matches!(other.try_lock(), Err(TryLockError::WouldBlock)));
        drop(lock);
        assert!(other.try_lock().is_ok());
        assert!(FileLock::of_directory(folder.path()).is_ok());
    }
}

//! Disk space reserved in the data directory, so that `gc` can run on a full disk.
//!
//! Garbage collection writes before it removes: the registration of its process, the intent and the
//! result. Releasing the reserve makes room for that. Every command that writes creates the reserve
//! if it is missing and the disk has space.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};

const NAME: &str = "reserve";

/// Enough for a few transactions and their journal.
const SIZE: u64 = 4 << 20;

/// The space that must stay free besides the reserve; otherwise it is not created.
const FREE_MINIMUM: u64 = 4 * SIZE;

/// A released reserve. Dropping it creates the reserve again if the disk has space by then.
#[derive(Debug)]
pub struct ReleasedReserve(PathBuf);

/// Creates the reserve if it is missing. Errors are ignored: without a reserve only garbage
/// collection on a full disk is affected.
pub fn ensure(directory: &Path) {
    let _ = allocate(&directory.join(NAME));
}

/// Frees the reserved space until the returned value is dropped.
pub fn release(directory: &Path) -> ReleasedReserve {
    let path = directory.join(NAME);
    // A missing reserve frees nothing; garbage collection is tried anyway.
    let _ = fs::remove_file(&path);
    ReleasedReserve(path)
}

fn allocate(path: &Path) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|found| found.len() >= SIZE) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(path);
    if crate::disk::free_space(folder)? < SIZE + FREE_MINIMUM {
        return Ok(());
    }
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).mode(0o600).open(path)?;
    let made = fallocate(&file, FallocateFlags::empty(), 0, SIZE);
    if made.is_err() {
        // A partial file would later be taken for a complete reserve.
        fs::remove_file(path)?;
    }
    Ok(made?)
}

impl Drop for ReleasedReserve {
    fn drop(&mut self) {
        let _ = allocate(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_released_reserve_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        ensure(folder.path());
        let path = folder.path().join(NAME);
        let is_whole = || fs::metadata(&path).is_ok_and(|found| found.len() == SIZE);
        assert!(is_whole());
        let released = release(folder.path());
        assert!(!path.exists());
        drop(released);
        assert!(is_whole());
    }
}

//! Space set aside in the data directory, so that what frees space can run on a full disk.
//!
//! Collecting writes before it removes: that this process is here, what it is about to remove, and
//! what it removed. The reserve gives that room. Every command that writes makes it where it is
//! missing and there is room for it.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};

const NAME: &str = "reserve";

/// Room for a few transactions and their journal.
const SIZE: u64 = 4 << 20;

/// Left free besides the reserve, or none is made.
const FREE_MINIMUM: u64 = 4 * SIZE;

/// A reserve that is in use. Dropping it makes the reserve again, if there is room by then.
#[derive(Debug)]
pub struct ReleasedReserve(PathBuf);

/// Makes the reserve unless it is there. Without one only collecting on a full disk is lost, so
/// failing to make it is no failure.
pub fn ensure(directory: &Path) {
    let _ = allocate(&directory.join(NAME));
}

/// Gives the reserve up to whoever works until the answer is dropped.
pub fn release(directory: &Path) -> ReleasedReserve {
    let path = directory.join(NAME);
    // One that is not there gives no room; the collecting is tried all the same.
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
        // A part of it would be taken for the whole.
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

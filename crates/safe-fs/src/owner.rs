//! Sets the owner of files that the host creates in a tree.
//!
//! If this program runs as root, a tree belongs to a user of its own, and so must every file that the
//! host creates in it. A process that is not root can only create files of its own.

use std::os::fd::BorrowedFd;

use rustix::fs::{fchown, fstat};
use rustix::io::Errno;
use rustix::process::{Gid, Uid, geteuid};

/// Gives a new file or folder to the owner of the folder that contains it. Does nothing unless root.
pub fn inherit_owner(folder: BorrowedFd<'_>, created: BorrowedFd<'_>) -> Result<(), Errno> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let (around, new) = (fstat(folder)?, fstat(created)?);
    if (around.st_uid, around.st_gid) == (new.st_uid, new.st_gid) {
        return Ok(());
    }
    let owner = Some(Uid::from_raw(around.st_uid));
    let group = Some(Gid::from_raw(around.st_gid));
    fchown(created, owner, group)
}

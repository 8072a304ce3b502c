//! Reads small files of a user's repository that affect what git and sandboxes see.
//!
//! A link there could lead anywhere on the machine, and its target would be copied as if it
//! belonged to the repository. Git follows such links; here they are an error. They cannot be
//! skipped either, because the files decide what is ignored and what has a filter.

use std::io::Read;
use std::os::fd::AsFd;
use std::path::Path;

use cleveragents_ports::sandbox::{SandboxError, SandboxResult};
use rustix::io::Errno;

use crate::files::{io_error, replace};
use crate::safe_fs::{open_file, open_root};

/// Far more than a person writes into such a file.
const MAXIMUM: u64 = 16 << 20;

/// Returns the content of a file in a git directory, or `None` if it does not exist. Fails if the
/// file or its folder is a link.
pub(crate) fn read(git_dir: &Path, name: &str) -> SandboxResult<Option<Vec<u8>>> {
    let path = git_dir.join(name);
    let root = open_root(git_dir)?;
    let mut file = match open_file(root.as_fd(), name.as_bytes()) {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::NXIO) => return Ok(None),
        Err(Errno::LOOP | Errno::NOTDIR) => return refuse_link(git_dir, name),
        Err(error) => return Err(crate::safe_fs::errno_error(&path, error)),
    };
    let found = file.metadata().map_err(io_error(&path))?;
    if !found.is_file() {
        return Ok(None);
    }
    if found.len() > MAXIMUM {
        let reason = format!("it is larger than {} MiB", MAXIMUM >> 20);
        return Err(SandboxError::Foreign { path, reason });
    }
    let mut content = Vec::new();
    let mut start = file.by_ref().take(MAXIMUM);
    start.read_to_end(&mut content).map_err(io_error(&path))?;
    Ok(Some(content))
}

/// Copies a file of a git directory, if it exists.
pub(crate) fn copy(git_dir: &Path, name: &str, to: &Path) -> SandboxResult<()> {
    match read(git_dir, name)? {
        Some(content) => replace(to, &content),
        None => Ok(()),
    }
}

/// Returns an error that names the link on the way to a file, or `None` if a parent is not a folder.
fn refuse_link<T>(git_dir: &Path, name: &str) -> SandboxResult<Option<T>> {
    let mut path = git_dir.to_owned();
    for part in name.split('/') {
        path.push(part);
        let is_link = path.symlink_metadata().is_ok_and(|it| it.is_symlink());
        if is_link {
            let reason = "it is a link, and links in this place are not followed. \
                          Put a copy of what it leads to in its place";
            return Err(SandboxError::Foreign {
                path,
                reason: reason.to_owned(),
            });
        }
    }
    Ok(None)
}

//! Opens files below a folder, with errors that name the path.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use cleveragents_ports::sandbox::{SandboxError, SandboxResult};
use cleveragents_safe_fs::file_access;
pub(crate) use cleveragents_safe_fs::file_access::{
    FileStat, open_file, open_folder, stat_at, with_parent,
};
use rustix::io::Errno;

pub(crate) fn open_root(path: &Path) -> SandboxResult<OwnedFd> {
    file_access::open_root(path).map_err(|error| errno_error(path, error))
}

pub(crate) fn reopen(folder: BorrowedFd<'_>) -> SandboxResult<OwnedFd> {
    file_access::reopen(folder).map_err(|error| errno_error(Path::new("."), error))
}

pub(crate) fn errno_error(path: &Path, error: Errno) -> SandboxError {
    SandboxError::Io {
        path: path.to_owned(),
        reason: std::io::Error::from(error).to_string(),
    }
}

//! Files below an open folder, with errors that name what was looked for.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use cleveragents_beneath::reach;
pub(crate) use cleveragents_beneath::reach::{
    FileStat, in_folder, open_file, open_folder, stat_beneath,
};
use cleveragents_engine::ports::sandbox::{SandboxError, SandboxResult};
use rustix::io::Errno;

pub(crate) fn open_root(path: &Path) -> SandboxResult<OwnedFd> {
    reach::open_root(path).map_err(|error| failed(path, error))
}

pub(crate) fn reopen(folder: BorrowedFd<'_>) -> SandboxResult<OwnedFd> {
    reach::reopen(folder).map_err(|error| failed(Path::new("."), error))
}

pub(crate) fn failed(path: &Path, error: Errno) -> SandboxError {
    SandboxError::Io {
        path: path.to_owned(),
        reason: std::io::Error::from(error).to_string(),
    }
}

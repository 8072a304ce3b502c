//! Files below an open folder, reached so that no link can lead elsewhere.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use cleveragents_engine::ports::sandbox::{SandboxError, SandboxResult};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, openat, statat};
use rustix::io::Errno;

use crate::files::path_of;

/// What tells one state of a file from another without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileStat {
    pub(crate) size: u64,
    pub(crate) modified: i64,
    pub(crate) changed: i64,
    pub(crate) inode: u64,
    /// Type and permissions.
    pub(crate) mode: u32,
}

impl From<&Stat> for FileStat {
    #[expect(
        clippy::unnecessary_cast,
        reason = "the types of these fields differ between systems"
    )]
    fn from(stat: &Stat) -> Self {
        let time = |seconds: i64, nanoseconds: i64| {
            seconds
                .saturating_mul(1_000_000_000)
                .saturating_add(nanoseconds)
        };
        Self {
            size: stat.st_size as u64,
            modified: time(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: time(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
            inode: stat.st_ino as u64,
            mode: stat.st_mode as u32,
        }
    }
}

impl FileStat {
    pub(crate) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }
}

pub(crate) fn open_root(path: &Path) -> SandboxResult<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(|error| failed(path, error))
}

pub(crate) fn reopen(folder: BorrowedFd<'_>) -> SandboxResult<OwnedFd> {
    open_folder(folder, b".").map_err(|error| failed(Path::new("."), error))
}

pub(crate) fn open_folder(parent: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, path_of(name), flags, Mode::empty())
}

/// Opens a file by its folders, none of which may be a link, nor the file itself; a FIFO put in
/// its place makes nobody wait.
pub(crate) fn open_file(root: BorrowedFd<'_>, path: &[u8]) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    in_folder(root, path, |folder, name| {
        openat(folder, path_of(name), flags, Mode::empty()).map(File::from)
    })
}

/// Does something with the last name of `path` in its folder, which no link can move elsewhere.
pub(crate) fn in_folder<T>(
    root: BorrowedFd<'_>,
    path: &[u8],
    work: impl FnOnce(BorrowedFd<'_>, &[u8]) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let mut parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    let name = parts.pop().unwrap_or_default();
    let mut folder: Option<OwnedFd> = None;
    for part in parts {
        let parent = folder.as_ref().map_or(root, AsFd::as_fd);
        folder = Some(open_folder(parent, part)?);
    }
    work(folder.as_ref().map_or(root, AsFd::as_fd), name)
}

pub(crate) fn stat_beneath(root: BorrowedFd<'_>, path: &[u8]) -> Result<FileStat, Errno> {
    in_folder(root, path, |folder, name| {
        let stat = statat(folder, path_of(name), AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileStat::from(&stat))
    })
}

pub(crate) fn failed(path: &Path, error: Errno) -> SandboxError {
    SandboxError::Io {
        path: path.to_owned(),
        reason: std::io::Error::from(error).to_string(),
    }
}

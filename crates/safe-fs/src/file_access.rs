//! Accesses files below an open folder without ever following a symbolic link.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, mkdirat, openat, statat};
use rustix::io::Errno;

use crate::owner::inherit_owner;
use crate::path_from_bytes;

/// Metadata that changes when a file changes, so two states can be compared without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStat {
    pub size: u64,
    pub modified: i64,
    pub changed: i64,
    pub inode: u64,
    /// File type and permission bits.
    pub mode: u32,
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
    /// Regular file, folder, symbolic link or another type.
    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }
}

/// Opens the folder that all later calls start from. Fails if it is a symbolic link.
pub fn open_root(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
}

/// Opens the same folder again, with a read position of its own at the start.
pub fn reopen(folder: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    open_folder(folder, b".")
}

/// Opens a folder inside a folder. Fails if `name` is a symbolic link.
pub fn open_folder(parent: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, path_from_bytes(name), flags, Mode::empty())
}

/// Opens a file for reading. Fails if the file or any folder of `path` is a symbolic link. Does not
/// block if the file was replaced by a FIFO.
pub fn open_file(root: BorrowedFd<'_>, path: &[u8]) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    with_parent(root, path, |folder, name| {
        openat(folder, path_from_bytes(name), flags, Mode::empty()).map(File::from)
    })
}

/// Calls `work` with the open parent folder and the last name of `path`. The parent is opened
/// without following symbolic links, so no link can redirect `work` outside `root`.
pub fn with_parent<T>(
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

/// Returns the metadata of `path`. A symbolic link at the end is not followed.
pub fn stat_at(root: BorrowedFd<'_>, path: &[u8]) -> Result<FileStat, Errno> {
    with_parent(root, path, |folder, name| {
        let stat = statat(folder, path_from_bytes(name), AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileStat::from(&stat))
    })
}

/// Creates a folder and its parents. Folders that exist are kept.
pub fn make_folder(root: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd, Errno> {
    let mut folder: Option<OwnedFd> = None;
    for part in path.split(|byte| *byte == b'/').filter(|it| !it.is_empty()) {
        let parent = folder.as_ref().map_or(root, AsFd::as_fd);
        folder = Some(make_and_open(parent, part)?);
    }
    match folder {
        Some(folder) => Ok(folder),
        None => reopen(root),
    }
}

/// Opens a folder inside a folder and creates it first if it does not exist.
pub fn make_and_open(parent: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    match mkdirat(parent, path_from_bytes(name), Mode::from_raw_mode(0o755)) {
        // A link under this name is refused, because `open_folder` follows none.
        Ok(()) | Err(Errno::EXIST) => open_folder(parent, name),
        Err(error) => Err(error),
    }
}

/// Like [`make_and_open`], but a created folder gets the owner of `parent`.
pub fn make_and_open_owned(parent: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    match mkdirat(parent, path_from_bytes(name), Mode::from_raw_mode(0o755)) {
        Ok(()) => {
            let made = open_folder(parent, name)?;
            // Set through the open folder, so a swap of the name cannot redirect it.
            inherit_owner(parent, made.as_fd())?;
            Ok(made)
        }
        Err(Errno::EXIST) => open_folder(parent, name),
        Err(error) => Err(error),
    }
}

/// Returns the names in a folder, sorted.
pub fn names_in(folder: BorrowedFd<'_>) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(name.to_vec());
        }
    }
    // The kernel's order differs between file systems.
    names.sort_unstable();
    Ok(names)
}

/// Splits a path into its folder and its last name.
pub fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

//! Writes files into a tree by open folders, so that no link in it can redirect a write.

use std::fs::{File, Permissions};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cleveragents_ports::sandbox::SandboxResult;
use cleveragents_safe_fs::file_access::{make_folder, split};
use rustix::fs::{FileType, Mode, OFlags, openat, readlinkat, renameat_with, symlinkat};
use rustix::io::Errno;

use crate::files::{io_error as io_failed, path_from_bytes};
use crate::safe_fs::{FileStat, errno_error, open_file, with_parent};

/// Copies a file or link from one tree to the same path in another. An existing file stays.
pub(crate) fn copy(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    path: &[u8],
    stat: &FileStat,
) -> SandboxResult<()> {
    let explain = |error| errno_error(path_from_bytes(path), error);
    let (folder, name) = split(path);
    let folder = make_folder(to, folder).map_err(explain)?;
    if stat.kind() == FileType::Symlink {
        let target = with_parent(from, path, |folder, name| {
            readlinkat(folder, path_from_bytes(name), Vec::new())
        });
        let target = target.map_err(explain)?;
        return match symlinkat(target.as_c_str(), &folder, path_from_bytes(name)) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(explain(error)),
        };
    }
    let mut source = open_file(from, path).map_err(explain)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let copied = match openat(
        &folder,
        path_from_bytes(name),
        flags,
        Mode::from_raw_mode(0o600),
    ) {
        Ok(copied) => File::from(copied),
        Err(Errno::EXIST) => return Ok(()),
        Err(error) => return Err(explain(error)),
    };
    copy_bytes(&mut source, copied, stat.mode).map_err(io_failed(path_from_bytes(path)))
}

/// The kernel shares or copies the blocks if it can. Special mode bits such as set-user-id are not
/// copied.
fn copy_bytes(source: &mut File, mut copied: File, mode: u32) -> io::Result<()> {
    io::copy(source, &mut copied)?;
    copied.set_permissions(Permissions::from_mode(mode & 0o777))
}

/// Moves `path` from one tree to the same path in another. Does nothing if something exists there
/// or if the folder does not: a new folder would change that tree.
pub(crate) fn move_between(from: BorrowedFd<'_>, to: BorrowedFd<'_>, path: &[u8]) {
    // Errors are ignored: restoring does not promise to keep ignored files.
    let _ = with_parent(from, path, |folder, name| {
        with_parent(to, path, |target, _| {
            let flags = rustix::fs::RenameFlags::NOREPLACE;
            renameat_with(
                folder,
                path_from_bytes(name),
                target,
                path_from_bytes(name),
                flags,
            )
        })
    });
}

pub(crate) fn rename(from: &Path, to: &Path) -> SandboxResult<()> {
    std::fs::rename(from, to).map_err(io_failed(from))
}

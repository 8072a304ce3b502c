//! Atomic file replacement, and OS locks between processes (law 10).

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use cleveragents_ports::StoreError;

/// Creates a folder, with its parents, that only its owner may enter. An existing folder is left
/// unchanged.
pub(crate) fn create_private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Opens or creates a lock or state file that only its owner may read.
pub(crate) fn open_private(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

/// Replaces `path` by `content`: writes to a temporary file, syncs it, renames it and syncs the
/// folder.
pub(crate) fn replace(path: &Path, temporary: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(temporary)?;
    file.write_all(content)?;
    // The content must be on the disk before the name refers to it; otherwise a power failure can
    // leave an empty file under the name.
    file.sync_all()?;
    std::fs::rename(temporary, path)?;
    match path.parent() {
        Some(folder) => sync_folder(folder),
        None => Ok(()),
    }
}

/// Makes a rename or a new entry in `folder` durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Maps an I/O error on `path` to a store error.
pub(crate) fn map_io_error(path: &Path, error: &io::Error) -> StoreError {
    let (path, reason) = (path.to_owned(), error.to_string());
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            StoreError::Full { path, reason }
        }
        io::ErrorKind::PermissionDenied
        | io::ErrorKind::ReadOnlyFilesystem
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::IsADirectory
        | io::ErrorKind::NotFound
        | io::ErrorKind::InvalidFilename
        | io::ErrorKind::AlreadyExists => StoreError::NotWritable { path, reason },
        _ => StoreError::internal(format!("{}: {reason}", path.display())),
    }
}

//! Replaces files atomically (law 10), removes folders whatever their modes, converts bytes to paths.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use cleveragents_domain::{ResourcePath, Timestamp};
use cleveragents_ports::sandbox::{SandboxError, SandboxResult};
pub(crate) use cleveragents_safe_fs::path_from_bytes;

pub(crate) fn resource_path(bytes: &[u8]) -> SandboxResult<ResourcePath> {
    ResourcePath::from_bytes(bytes).map_err(|error| SandboxError::Malformed {
        what: format!("{}: {error}", String::from_utf8_lossy(bytes)),
    })
}

pub(crate) fn io_error(path: &Path) -> impl Fn(io::Error) -> SandboxError + '_ {
    move |error| SandboxError::Io {
        path: path.to_owned(),
        reason: error.to_string(),
    }
}

/// Creates a folder that only its owner may enter. An existing folder is left as it is.
pub(crate) fn create_private_folder(path: &Path) -> SandboxResult<()> {
    let mut builder = DirBuilder::new();
    let created = builder.recursive(true).mode(0o700).create(path);
    created.map_err(io_error(path))
}

pub(crate) fn system_time(at: Timestamp) -> SystemTime {
    let micros = u64::try_from(at.as_micros()).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_micros(micros)
}

/// Opens or creates a lock file and waits for the lock, which is released on drop.
pub(crate) fn lock(path: &Path) -> SandboxResult<File> {
    let file = open_lock(path)?;
    file.lock().map_err(io_error(path))?;
    Ok(file)
}

fn open_lock(path: &Path) -> SandboxResult<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(io_error(path))
}

/// Replaces `path` by `content`: writes a temporary file, syncs it, renames it and syncs the folder.
pub(crate) fn replace(path: &Path, content: &[u8]) -> SandboxResult<()> {
    replace_with_sync(path, content, Sync::Yes)
}

/// Whether a replaced file must survive a power failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sync {
    Yes,
    No,
}

pub(crate) fn replace_with_sync(path: &Path, content: &[u8], sync: Sync) -> SandboxResult<()> {
    let temporary = path.with_extension("next");
    // A replaced file keeps its permissions.
    let replaced = fs::symlink_metadata(path)
        .ok()
        .filter(fs::Metadata::is_file);
    let mode = replaced.map_or(0o600, |file| file.permissions().mode() & 0o777);
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary)?;
        if mode != 0o600 {
            file.set_permissions(fs::Permissions::from_mode(mode))?;
        }
        file.write_all(content)?;
        if sync == Sync::Yes {
            file.sync_all()?;
        }
        fs::rename(&temporary, path)?;
        match path.parent() {
            Some(folder) if sync == Sync::Yes => File::open(folder)?.sync_all(),
            _ => Ok(()),
        }
    };
    write().map_err(io_error(path))
}

/// Returns the content of a small file, or `None` if it does not exist.
pub(crate) fn read_if_exists(path: &Path) -> SandboxResult<Option<Vec<u8>>> {
    let mut content = Vec::new();
    match File::open(path).and_then(|mut file| file.read_to_end(&mut content)) {
        Ok(_) => Ok(Some(content)),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(io_error(path)(error)),
    }
}

pub(crate) fn is_not_found(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Removes a file, a link, or a folder with its content, without following links. Folders whose
/// permissions an agent removed are made accessible first.
pub(crate) fn remove(path: &Path) -> SandboxResult<()> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if is_not_found(&error) => return Ok(()),
        Err(error) => return Err(io_error(path)(error)),
    };
    let removed = if found.is_dir() {
        fs::remove_dir_all(path).or_else(|_| {
            open_and_flatten(path)?;
            fs::remove_dir_all(path)
        })
    } else {
        fs::remove_file(path)
    };
    match removed {
        Err(error) if !is_not_found(&error) => Err(io_error(path)(error)),
        _ => Ok(()),
    }
}

/// Makes a folder removable: makes its folders accessible, and moves folders to the top that are
/// nested too deep for one descriptor per level or for the maximum path length.
fn open_and_flatten(root: &Path) -> io::Result<()> {
    let mut moved = 0;
    let mut open = vec![(root.to_owned(), 0)];
    while let Some((folder, depth)) = open.pop() {
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                continue;
            }
            let path = entry.path();
            if depth < MAX_LEVELS && path.as_os_str().len() < MAX_PATH_LENGTH {
                open.push((path, depth + 1));
                continue;
            }
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
            let top = loop {
                moved += 1;
                let free = root.join(format!("{moved}"));
                if free.symlink_metadata().is_err() {
                    break free;
                }
            };
            fs::rename(&path, &top)?;
            open.push((top, 1));
        }
    }
    Ok(())
}

/// Well below the number of descriptors that a process may open.
const MAX_LEVELS: usize = 100;

/// Leaves room for one more name within the system's maximum path length.
const MAX_PATH_LENGTH: usize = 3000;

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

    use super::*;

    #[test]
    fn folders_of_any_depth_and_mode_are_removed() {
        let world = tempfile::tempdir().unwrap();
        let root = world.path().join("root");
        for (name, levels) in [("d", 1500), (&"long".repeat(50), 60)] {
            fs::create_dir(&root).unwrap();
            replace(&root.join("1"), b"in the way").unwrap();
            let flags = OFlags::DIRECTORY | OFlags::RDONLY;
            let mut folder = openat(CWD, &root, flags, Mode::empty()).unwrap();
            for _ in 0..levels {
                mkdirat(&folder, name, Mode::RWXU).unwrap();
                let inner = openat(&folder, name, flags, Mode::empty()).unwrap();
                rustix::fs::fchmod(&folder, Mode::RUSR | Mode::XUSR).unwrap();
                folder = inner;
            }
            remove(&root).unwrap();
            assert!(!root.exists(), "{levels} levels");
        }
    }
}

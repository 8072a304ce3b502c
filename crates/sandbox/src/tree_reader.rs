//! Reads single files and folders of a sandbox without following any link.

use std::io::Read;
use std::os::fd::AsFd;
use std::path::Path;

use cleveragents_domain::ResourcePath;
use cleveragents_ports::sandbox::SandboxResult;
use cleveragents_safe_fs::file_access::names_in;
use rustix::io::Errno;

use crate::files;
use crate::safe_fs::{errno_error, open_file, open_folder, open_root, with_parent};

/// Returns the first `most` bytes of a file, or `None` if the path is not a regular file.
pub(crate) fn read(
    tree: &Path,
    path: &ResourcePath,
    most: usize,
) -> SandboxResult<Option<Vec<u8>>> {
    let root = open_root(tree)?;
    let display_path = cleveragents_safe_fs::path_from_bytes(path.as_bytes());
    let file = match open_file(root.as_fd(), path.as_bytes()) {
        Ok(file) => file,
        Err(error) if is_not_found(error) => return Ok(None),
        Err(error) => return Err(errno_error(display_path, error)),
    };
    if !file
        .metadata()
        .map_err(files::io_error(display_path))?
        .is_file()
    {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    let most = u64::try_from(most).unwrap_or(u64::MAX);
    file.take(most)
        .read_to_end(&mut bytes)
        .map_err(files::io_error(display_path))?;
    Ok(Some(bytes))
}

/// Returns the direct content of a folder, or nothing if the folder does not exist.
pub(crate) fn list_folder(tree: &Path, folder: &ResourcePath) -> SandboxResult<Vec<ResourcePath>> {
    let root = open_root(tree)?;
    let display_path = cleveragents_safe_fs::path_from_bytes(folder.as_bytes());
    let opened = with_parent(root.as_fd(), folder.as_bytes(), open_folder);
    let opened = match opened {
        Ok(opened) => opened,
        Err(error) if is_not_found(error) => return Ok(Vec::new()),
        Err(error) => return Err(errno_error(display_path, error)),
    };
    let names = names_in(opened.as_fd()).map_err(|error| errno_error(display_path, error))?;
    let inside = |name: Vec<u8>| {
        let path = [folder.as_bytes(), b"/", &name].concat();
        ResourcePath::from_bytes(&path[..]).ok()
    };
    Ok(names.into_iter().filter_map(inside).collect())
}

/// Nothing exists at the path, or only something that leads elsewhere.
fn is_not_found(error: Errno) -> bool {
    matches!(
        error,
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ISDIR | Errno::NXIO
    )
}

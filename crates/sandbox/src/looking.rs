//! Looking at single files and folders of a sandbox, without following a link anywhere.

use std::io::Read;
use std::os::fd::AsFd;
use std::path::Path;

use cleveragents_beneath::reach::names_in;
use cleveragents_domain::ResourcePath;
use cleveragents_engine::ports::sandbox::SandboxResult;
use rustix::io::Errno;

use crate::beneath::{failed, in_folder, open_file, open_folder, open_root};
use crate::files;

/// The first `most` bytes of the file; nothing if there is no regular file at the path.
pub(crate) fn read(
    tree: &Path,
    path: &ResourcePath,
    most: usize,
) -> SandboxResult<Option<Vec<u8>>> {
    let root = open_root(tree)?;
    let shown = cleveragents_beneath::path_of(path.as_bytes());
    let file = match open_file(root.as_fd(), path.as_bytes()) {
        Ok(file) => file,
        Err(error) if is_absent(error) => return Ok(None),
        Err(error) => return Err(failed(shown, error)),
    };
    if !file.metadata().map_err(files::failed(shown))?.is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    let most = u64::try_from(most).unwrap_or(u64::MAX);
    file.take(most)
        .read_to_end(&mut bytes)
        .map_err(files::failed(shown))?;
    Ok(Some(bytes))
}

/// What is directly in a folder; nothing if there is none.
pub(crate) fn entries(tree: &Path, folder: &ResourcePath) -> SandboxResult<Vec<ResourcePath>> {
    let root = open_root(tree)?;
    let shown = cleveragents_beneath::path_of(folder.as_bytes());
    let opened = in_folder(root.as_fd(), folder.as_bytes(), open_folder);
    let opened = match opened {
        Ok(opened) => opened,
        Err(error) if is_absent(error) => return Ok(Vec::new()),
        Err(error) => return Err(failed(shown, error)),
    };
    let names = names_in(opened.as_fd()).map_err(|error| failed(shown, error))?;
    let inside = |name: Vec<u8>| {
        let path = [folder.as_bytes(), b"/", &name].concat();
        ResourcePath::from_bytes(&path[..]).ok()
    };
    Ok(names.into_iter().filter_map(inside).collect())
}

/// Nothing is there, or only what leads elsewhere.
fn is_absent(error: Errno) -> bool {
    matches!(
        error,
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ISDIR | Errno::NXIO
    )
}

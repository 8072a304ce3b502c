//! Writes the changed files to disk as git would check them out, and hashes each of them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use cleveragents_domain::ResourcePath;
use cleveragents_ports::sandbox::{SandboxError, SandboxResult};
use cleveragents_ports::targets::{ContentHash, PathChange, PathState};
use rustix::fs::readlinkat;
use rustix::io::Errno;

use crate::apply::apply_store::with_attributes;
use crate::apply::record::LocalApplyRecord;
use crate::entries::GITLINK;
use crate::files::{create_private_folder, io_error, path_from_bytes, remove};
use crate::safe_fs::{errno_error as failed_at, open_file, open_root, with_parent};
use crate::store::PrivateStore;

/// Writes both sides of the changes and fills in their hashes. Each side uses the attributes of its
/// own tree.
pub(crate) fn stage(
    store: &PrivateStore,
    record: &LocalApplyRecord,
    changes: &mut [PathChange],
    old_tree: &str,
    new_tree: &str,
) -> SandboxResult<()> {
    let mut old: Vec<_> = changes
        .iter_mut()
        .map(|it| (&it.path, &mut it.old))
        .collect();
    let folder = record.old_files();
    write_side(&with_attributes(store, old_tree), record, &folder, &mut old)?;
    let mut new: Vec<_> = changes
        .iter_mut()
        .map(|it| (&it.path, &mut it.new))
        .collect();
    let folder = record.new_files();
    write_side(&with_attributes(store, new_tree), record, &folder, &mut new)?;
    sync_folder(&folder)
}

type StagedSide<'a> = (&'a ResourcePath, &'a mut Option<PathState>);

fn write_side(
    store: &PrivateStore,
    record: &LocalApplyRecord,
    folder: &Path,
    side: &mut [StagedSide<'_>],
) -> SandboxResult<()> {
    remove(folder)?;
    create_private_folder(folder)?;
    let index = record.fresh_index("staging")?;
    let mut lines = Vec::new();
    for (path, state) in side.iter() {
        if let Some(state) = state.as_ref().filter(|it| it.mode != GITLINK) {
            lines.extend_from_slice(format!("{:o} {}\t", state.mode, state.object).as_bytes());
            lines.extend_from_slice(path.as_bytes());
            lines.push(0);
        }
    }
    if lines.is_empty() {
        return Ok(());
    }
    let call = store.call(["update-index", "-z", "--index-info"]);
    call.index(&index).run_with(&lines)?;
    let call = store.call(["checkout-index", "--all", "--force", "--quiet"]);
    call.index(&index)
        .work_tree(folder)
        .directory(folder)
        .run()?;
    remove(&index)?;
    let root = open_root(folder)?;
    for (path, state) in side {
        // A submodule has no content of its own.
        if let Some(state) = state.as_mut().filter(|it| it.mode != GITLINK) {
            let content = hash_path(root.as_fd(), path.as_bytes());
            let content = content.map_err(io_error(path_from_bytes(path.as_bytes())))?;
            state.content = Some(content.ok_or_else(|| SandboxError::Malformed {
                what: format!("git wrote no file for {path}"),
            })?);
        }
    }
    Ok(())
}

/// Returns hash and size of a file or of a link's target, or `None` if the path is neither.
pub(crate) fn hash_path(root: BorrowedFd<'_>, path: &[u8]) -> io::Result<Option<ContentHash>> {
    match open_file(root, path) {
        Ok(file) if file.metadata()?.is_file() => hash(file).map(Some),
        Ok(_) => Ok(None),
        Err(Errno::LOOP) => {
            let target = with_parent(root, path, |folder, name| {
                readlinkat(folder, path_from_bytes(name), Vec::new())
            })?;
            hash(target.as_bytes()).map(Some)
        }
        Err(Errno::NOENT | Errno::NOTDIR | Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn hash(mut from: impl io::Read) -> io::Result<ContentHash> {
    let mut hasher = blake3::Hasher::new();
    let size = io::copy(&mut from, &mut hasher)?;
    Ok(ContentHash {
        hash: hasher.finalize().to_hex().to_string(),
        size,
    })
}

/// Copies the prepared files of another apply, with old and new exchanged.
pub(crate) fn stage_reversed(from: &LocalApplyRecord, to: &LocalApplyRecord) -> SandboxResult<()> {
    let sides = [
        (from.old_files(), to.new_files()),
        (from.new_files(), to.old_files()),
    ];
    for (from, to) in sides {
        remove(&to)?;
        copy_folder(&from, &to)?;
    }
    sync_folder(&to.new_files())
}

/// Copies a folder of ours recursively.
fn copy_folder(from: &Path, to: &Path) -> SandboxResult<()> {
    create_private_folder(to)?;
    for entry in std::fs::read_dir(from).map_err(io_error(from))? {
        let entry = entry.map_err(io_error(from))?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(io_error(&path))?;
        if kind.is_dir() {
            copy_folder(&path, &target)?;
        } else if kind.is_symlink() {
            let link = std::fs::read_link(&path).map_err(io_error(&path))?;
            std::os::unix::fs::symlink(link, &target).map_err(io_error(&target))?;
        } else {
            std::fs::copy(&path, &target).map_err(io_error(&target))?;
        }
    }
    Ok(())
}

/// Makes everything that was written survive a power failure.
fn sync_folder(folder: &Path) -> SandboxResult<()> {
    sync_all(open_root(folder)?.as_fd())
}

/// Syncs the file system that contains a folder, in one call where the system has one.
pub(crate) fn sync_all(folder: BorrowedFd<'_>) -> SandboxResult<()> {
    #[cfg(target_os = "linux")]
    rustix::fs::syncfs(folder).map_err(|error| failed_at(Path::new("."), error))?;
    #[cfg(not(target_os = "linux"))]
    {
        let _ = folder;
        rustix::fs::sync();
    }
    Ok(())
}

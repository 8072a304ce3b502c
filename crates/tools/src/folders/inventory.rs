//! Inspects the content of a folder before it is moved or removed.

use std::os::fd::{AsFd, BorrowedFd};

use cleveragents_domain::ResourcePath;
use cleveragents_ports::tools::{ToolFailure, ToolInvocation};
use cleveragents_safe_fs::file_access::{FileStat, names_in, open_folder};
use cleveragents_safe_fs::path_from_bytes;
use cleveragents_safe_fs::refused_names::is_dot_git;
use cleveragents_safe_fs::resolve::{LastLink, ResolvedPath, resolve};
use rustix::fs::{AtFlags, FileType, statat};

use crate::builtin::{failed, stopped};
use crate::paths::TreePath;
use crate::stale_check::check_change;

/// Maximum nesting of folders: each level keeps one open.
pub(crate) const MAX_DEPTH: usize = 200;

#[derive(Debug, Default)]
pub(crate) struct FolderContents {
    /// Everything that is not a folder.
    pub(crate) files: u64,
    pub(crate) folders: u64,
    /// Hashes that the actor knows, by path.
    pub(crate) known_hashes: Vec<(ResourcePath, String)>,
}

/// Inspects everything in a folder. Fails if a file differs from what the actor knows, or if the
/// folder contains a repository, because a repository could not be restored.
pub(crate) fn inspect_folder(
    call: &ToolInvocation<'_>,
    target: &TreePath,
) -> Result<FolderContents, ToolFailure> {
    let folder = target.entry.folder();
    let folder = folder.and_then(|folder| open_folder(folder, &target.entry.name));
    let folder = folder.map_err(|error| target.io_failure("be read", error))?;
    let mut inspector = FolderInspector {
        call,
        contents: FolderContents::default(),
    };
    inspector.visit_folder(folder.as_fd(), &target.path, 0)?;
    Ok(inspector.contents)
}

struct FolderInspector<'a> {
    call: &'a ToolInvocation<'a>,
    contents: FolderContents,
}

impl FolderInspector<'_> {
    fn visit_folder(
        &mut self,
        folder: BorrowedFd<'_>,
        path: &ResourcePath,
        depth: usize,
    ) -> Result<(), ToolFailure> {
        let unreadable = |error| failed(format!("{path} cannot be read: {error}"));
        if depth >= MAX_DEPTH {
            return Err(failed(format!("{path} is nested too deep")));
        }
        for name in names_in(folder).map_err(unreadable)? {
            self.call.stop.check().map_err(stopped)?;
            let here = [path.as_bytes(), &name].join(&b'/');
            let here = ResourcePath::from_bytes(here).map_err(|error| failed(error.to_string()))?;
            if is_dot_git(&name) {
                return Err(failed(format!("{path} contains a git repository, {here}")));
            }
            let stat = statat(folder, path_from_bytes(&name), AtFlags::SYMLINK_NOFOLLOW);
            let stat = FileStat::from(&stat.map_err(unreadable)?);
            if stat.kind() == FileType::Directory {
                self.contents.folders += 1;
                let inner = open_folder(folder, &name);
                let inner =
                    inner.map_err(|error| failed(format!("{here} cannot be read: {error}")))?;
                self.visit_folder(inner.as_fd(), &here, depth + 1)?;
            } else {
                self.contents.files += 1;
                self.visit_file(folder, &name, here)?;
            }
        }
        Ok(())
    }

    fn visit_file(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &[u8],
        path: ResourcePath,
    ) -> Result<(), ToolFailure> {
        if !self.call.stamps.has_stamp(&path) {
            return Ok(());
        }
        // Resolved in the open folder, so that a swapped path cannot lead elsewhere.
        let entry = match resolve(folder, name, LastLink::Keep) {
            Ok(ResolvedPath::Entry(entry)) => entry,
            _ => return Err(failed(format!("{path} was replaced meanwhile"))),
        };
        let target = TreePath { entry, path };
        if target.kind()? == FileType::RegularFile
            && let Some(digest) = check_change(self.call, &target)?
        {
            self.contents.known_hashes.push((target.path, digest.hash));
        }
        Ok(())
    }
}

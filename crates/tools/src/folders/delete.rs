//! `builtin/dir-delete`

use std::os::fd::{AsFd, BorrowedFd};

use cleveragents_domain::tool::{Capability, ToolEffect};
use cleveragents_ports::sandbox::TouchedPaths;
use cleveragents_ports::tools::{ToolFailure, ToolInvocation, ToolOutput};
use cleveragents_ports::{StopReason, StopSignal};
use cleveragents_safe_fs::file_access::{names_in, open_folder};
use cleveragents_safe_fs::path_from_bytes;
use rustix::fs::{AtFlags, FileType, unlinkat};
use rustix::io::Errno;
use serde::Deserialize;
use serde_json::json;

use super::inventory::inspect_folder;
use crate::builtin::{ToolDescription, ToolImpl, parse_input};
use crate::paths::{PathPurpose, SandboxTree};
use crate::schema_parts::{count, object, path, text};

#[derive(Debug)]
pub(crate) struct DirDelete;

#[derive(Debug, Deserialize)]
struct DirDeleteInput {
    path: String,
}

impl ToolImpl for DirDelete {
    fn describe(&self) -> ToolDescription {
        ToolDescription {
            name: "dir-delete",
            text:
                "Delete a folder with all that is in it, ignored files included. Links in it are \
                   deleted, not followed; a folder that contains a git repository is refused."
                    .to_owned(),
            input: object([("path", path("The folder."))]),
            output: object([
                ("path", text("The folder that was deleted.")),
                ("files", count("How many files were in it.")),
                ("folders", count("How many folders were in it.")),
            ]),
            capability: Capability::read_write().with_effect(ToolEffect::DeletesFiles),
            timeout_seconds: 300,
        }
    }

    fn run(&self, call: &ToolInvocation<'_>) -> Result<ToolOutput, ToolFailure> {
        let input: DirDeleteInput = parse_input(call)?;
        let target = SandboxTree::open(call)?.resolve_path(&input.path, PathPurpose::Relocate)?;
        match target.kind()? {
            FileType::Directory => {}
            other => return Err(target.wrong_kind(other, "a folder")),
        }
        let contents = inspect_folder(call, &target)?;
        // Prepared before the removal: also an incomplete one has changed the folder.
        let touched = TouchedPaths::Paths(vec![target.path.clone()]);
        let folder = target.entry.folder();
        let folder = folder.map_err(|error| target.io_failure("be deleted", error))?;
        match remove_folder(folder, &target.entry.name, call.stop) {
            Ok(()) => {}
            Err(RemoveError::Stopped(why)) => return Err(ToolFailure::Stopped { why, touched }),
            Err(RemoveError::Failed(error)) => {
                let error = std::io::Error::from(error);
                let reason = format!("{} cannot be deleted: {error}", target.path);
                return Err(ToolFailure::Failed { reason, touched });
            }
        }
        for (path, _) in contents.known_hashes {
            call.stamps.forget(&path);
        }
        let data = json!({
            "path": target.path,
            "files": contents.files,
            "folders": contents.folders,
        });
        Ok(ToolOutput { data, touched })
    }
}

/// Reason for an incomplete removal.
enum RemoveError {
    Stopped(StopReason),
    Failed(Errno),
}

/// Removes a folder recursively by open folders, so that no link leads elsewhere.
fn remove_folder(
    parent: BorrowedFd<'_>,
    name: &[u8],
    stop: &StopSignal,
) -> Result<(), RemoveError> {
    let folder = open_folder(parent, name).map_err(RemoveError::Failed)?;
    for inner in names_in(folder.as_fd()).map_err(RemoveError::Failed)? {
        stop.check().map_err(RemoveError::Stopped)?;
        match unlinkat(&folder, path_from_bytes(&inner), AtFlags::empty()) {
            // Removed meanwhile: the wanted state is reached.
            Ok(()) | Err(Errno::NOENT) => {}
            // Linux reports a folder as `EISDIR`, other systems as `EPERM`.
            Err(Errno::ISDIR | Errno::PERM) => remove_folder(folder.as_fd(), &inner, stop)?,
            Err(error) => return Err(RemoveError::Failed(error)),
        }
    }
    unlinkat(parent, path_from_bytes(name), AtFlags::REMOVEDIR).map_err(RemoveError::Failed)
}

//! `builtin/file-delete`

use cleveragents_domain::tool::{Capability, ToolEffect};
use cleveragents_ports::sandbox::TouchedPaths;
use cleveragents_ports::tools::{ToolFailure, ToolInvocation, ToolOutput};
use cleveragents_safe_fs::path_from_bytes;
use rustix::fs::{AtFlags, FileType, unlinkat};
use serde::Deserialize;
use serde_json::json;

use crate::builtin::{ToolDescription, ToolImpl, failed, parse_input};
use crate::paths::{PathPurpose, SandboxTree, kind_name};
use crate::schema_parts::{object, one_of, path, text};
use crate::stale_check::check_change;

#[derive(Debug)]
pub(crate) struct FileDelete;

#[derive(Debug, Deserialize)]
struct FileDeleteInput {
    path: String,
}

impl ToolImpl for FileDelete {
    fn describe(&self) -> ToolDescription {
        ToolDescription {
            name: "file-delete",
            text: "Delete one file. A link is deleted itself, not what it leads to; for folders \
                   there is builtin/dir-delete."
                .to_owned(),
            input: object([("path", path("The file."))]),
            output: object([
                ("path", text("What was deleted.")),
                (
                    "kind",
                    one_of(&["file", "link", "FIFO", "socket"], "What it was."),
                ),
            ]),
            capability: Capability::read_write().with_effect(ToolEffect::DeletesFiles),
            timeout_seconds: 60,
        }
    }

    fn run(&self, call: &ToolInvocation<'_>) -> Result<ToolOutput, ToolFailure> {
        let input: FileDeleteInput = parse_input(call)?;
        let target = SandboxTree::open(call)?.resolve_path(&input.path, PathPurpose::Relocate)?;
        let kind = target.kind()?;
        match kind {
            FileType::RegularFile => drop(check_change(call, &target)?),
            // These have no content that the actor could have missed.
            FileType::Symlink | FileType::Fifo | FileType::Socket => {}
            FileType::Directory => {
                let path = &target.path;
                return Err(failed(format!(
                    "{path} is a folder: use builtin/dir-delete"
                )));
            }
            other => return Err(target.wrong_kind(other, "a file")),
        }
        let folder = target.entry.folder();
        folder
            .and_then(|folder| {
                unlinkat(
                    folder,
                    path_from_bytes(&target.entry.name),
                    AtFlags::empty(),
                )
            })
            .map_err(|error| target.io_failure("be deleted", error))?;
        // A later file of this name is one that the actor has not seen.
        call.stamps.forget(&target.path);
        Ok(ToolOutput {
            data: json!({"path": target.path, "kind": kind_name(kind)}),
            touched: TouchedPaths::Paths(vec![target.path]),
        })
    }
}

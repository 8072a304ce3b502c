//! `builtin/file-delete`

use cleveragents_beneath::path_of;
use cleveragents_domain::tool::Capability;
use cleveragents_engine::ports::sandbox::Touched;
use cleveragents_engine::ports::tools::{Call, ToolFailure, ToolOutput};
use rustix::fs::{AtFlags, FileType, unlinkat};
use serde::Deserialize;
use serde_json::json;

use crate::builtin::{Description, Work, failed, input};
use crate::place::{Purpose, Tree, kind_word};
use crate::schema_parts::{object, one_of, path, text};
use crate::stale::may_change;

#[derive(Debug)]
pub(crate) struct FileDelete;

#[derive(Debug, Deserialize)]
struct Input {
    path: String,
}

impl Work for FileDelete {
    fn describe(&self) -> Description {
        Description {
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
            capability: Capability::writes(),
            timeout_seconds: 60,
        }
    }

    fn run(&self, call: &Call<'_>) -> Result<ToolOutput, ToolFailure> {
        let input: Input = input(call)?;
        let spot = Tree::of(call)?.spot(&input.path, Purpose::Rearrange)?;
        let kind = spot.kind()?;
        match kind {
            FileType::RegularFile => drop(may_change(call, &spot)?),
            FileType::Symlink | FileType::Fifo | FileType::Socket => {}
            FileType::Directory => {
                let path = &spot.path;
                return Err(failed(format!(
                    "{path} is a folder: use builtin/dir-delete"
                )));
            }
            other => return Err(spot.is_instead(other, "a file")),
        }
        let folder = spot.entry.folder();
        folder
            .and_then(|folder| unlinkat(folder, path_of(&spot.entry.name), AtFlags::empty()))
            .map_err(|error| spot.failed("be deleted", error))?;
        call.stamps.forget(&spot.path);
        Ok(ToolOutput {
            data: json!({"path": spot.path, "kind": kind_word(kind)}),
            touched: Touched::Paths(vec![spot.path]),
        })
    }
}

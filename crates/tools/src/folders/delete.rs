//! `builtin/dir-delete`

use std::os::fd::{AsFd, BorrowedFd};

use cleveragents_beneath::path_of;
use cleveragents_beneath::reach::{names_in, open_folder};
use cleveragents_domain::tool::Capability;
use cleveragents_engine::ports::sandbox::Touched;
use cleveragents_engine::ports::tools::{Call, ToolFailure, ToolOutput};
use cleveragents_engine::ports::{Stop, Stopped};
use rustix::fs::{AtFlags, FileType, unlinkat};
use rustix::io::Errno;
use serde::Deserialize;
use serde_json::json;

use super::inside::look_inside;
use crate::builtin::{Description, Work, input};
use crate::place::{Purpose, Tree};
use crate::schema_parts::{count, object, path, text};

#[derive(Debug)]
pub(crate) struct DirDelete;

#[derive(Debug, Deserialize)]
struct Input {
    path: String,
}

impl Work for DirDelete {
    fn describe(&self) -> Description {
        Description {
            name: "dir-delete",
            text:
                "Delete a folder with all that is in it, ignored files included. Links in it are \
                   deleted, not followed; a folder that holds a repository of its own is refused."
                    .to_owned(),
            input: object([("path", path("The folder."))]),
            output: object([
                ("path", text("The folder that was deleted.")),
                ("files", count("How many files were in it.")),
                ("folders", count("How many folders were in it.")),
            ]),
            capability: Capability::writes(),
            timeout_seconds: 300,
        }
    }

    fn run(&self, call: &Call<'_>) -> Result<ToolOutput, ToolFailure> {
        let input: Input = input(call)?;
        let spot = Tree::of(call)?.spot(&input.path, Purpose::Rearrange)?;
        match spot.kind()? {
            FileType::Directory => {}
            other => return Err(spot.is_instead(other, "a folder")),
        }
        let inside = look_inside(call, &spot)?;
        let touched = Touched::Paths(vec![spot.path.clone()]);
        let folder = spot.entry.folder();
        let folder = folder.map_err(|error| spot.failed("be deleted", error))?;
        match remove(folder, &spot.entry.name, call.stop) {
            Ok(()) => {}
            Err(Halt::Stopped(why)) => return Err(ToolFailure::Stopped { why, touched }),
            Err(Halt::Failed(error)) => {
                let error = std::io::Error::from(error);
                let reason = format!("{} cannot be deleted: {error}", spot.path);
                return Err(ToolFailure::Failed { reason, touched });
            }
        }
        for (path, _) in inside.known {
            call.stamps.forget(&path);
        }
        let data = json!({
            "path": spot.path,
            "files": inside.files,
            "folders": inside.folders,
        });
        Ok(ToolOutput { data, touched })
    }
}

/// Why not all was removed.
enum Halt {
    Stopped(Stopped),
    Failed(Errno),
}

/// Removes a folder from within, by open folders: no link leads it elsewhere.
fn remove(parent: BorrowedFd<'_>, name: &[u8], stop: &Stop) -> Result<(), Halt> {
    let folder = open_folder(parent, name).map_err(Halt::Failed)?;
    for inner in names_in(folder.as_fd()).map_err(Halt::Failed)? {
        stop.check().map_err(Halt::Stopped)?;
        match unlinkat(&folder, path_of(&inner), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::ISDIR | Errno::PERM) => remove(folder.as_fd(), &inner, stop)?,
            Err(error) => return Err(Halt::Failed(error)),
        }
    }
    unlinkat(parent, path_of(name), AtFlags::REMOVEDIR).map_err(Halt::Failed)
}

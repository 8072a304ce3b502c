//! `builtin/dir-create`

use cleveragents_beneath::reach::make_and_open_owned;
use cleveragents_domain::tool::Capability;
use cleveragents_engine::ports::sandbox::Touched;
use cleveragents_engine::ports::tools::{Call, ToolFailure, ToolOutput};
use rustix::fs::FileType;
use rustix::io::Errno;
use serde::Deserialize;
use serde_json::json;
use std::os::fd::AsFd;

use crate::builtin::{Description, Work, input, untouched};
use crate::place::{Purpose, Spot, Tree};
use crate::schema_parts::{object, one_of, path, text};

#[derive(Debug)]
pub(crate) struct DirCreate;

#[derive(Debug, Deserialize)]
struct Input {
    path: String,
}

impl Work for DirCreate {
    fn describe(&self) -> Description {
        Description {
            name: "dir-create",
            text: "Make a folder and those around it; one that exists stays as it is. Folders for \
                   new files need not be made first. Git keeps no empty folders."
                .to_owned(),
            input: object([("path", path("The folder."))]),
            output: object([
                ("path", text("The folder, links resolved.")),
                (
                    "result",
                    one_of(&["created", "unchanged"], "What became of it."),
                ),
            ]),
            capability: Capability::writes(),
            timeout_seconds: 60,
        }
    }

    fn run(&self, call: &Call<'_>) -> Result<ToolOutput, ToolFailure> {
        let input: Input = input(call)?;
        let spot = Tree::of(call)?.spot(&input.path, Purpose::Write)?;
        let answer = |result: &str| json!({"path": spot.path, "result": result});
        match spot.entry.stat.map(|stat| stat.kind()) {
            Some(FileType::Directory) => return Ok(untouched(answer("unchanged"))),
            Some(other) => return Err(spot.is_instead(other, "a folder or nothing")),
            None => {}
        }
        make(&spot).map_err(|error| ToolFailure::Failed {
            reason: format!(
                "{} cannot be made: {}",
                spot.path,
                std::io::Error::from(error)
            ),
            touched: Touched::Paths(vec![spot.path.clone()]),
        })?;
        let data = answer("created");
        let touched = Touched::Paths(vec![spot.path]);
        Ok(ToolOutput { data, touched })
    }
}

fn make(spot: &Spot) -> Result<(), Errno> {
    let folder = spot.entry.make_folder()?;
    make_and_open_owned(folder.as_fd(), &spot.entry.name).map(drop)
}

//! `builtin/dir-create`

use cleveragents_domain::tool::{Capability, ToolEffect};
use cleveragents_ports::sandbox::TouchedPaths;
use cleveragents_ports::tools::{ToolFailure, ToolInvocation, ToolOutput};
use cleveragents_safe_fs::file_access::make_and_open_owned;
use rustix::fs::FileType;
use rustix::io::Errno;
use serde::Deserialize;
use serde_json::json;
use std::os::fd::AsFd;

use crate::builtin::{ToolDescription, ToolImpl, parse_input, read_only_output};
use crate::paths::{PathPurpose, SandboxTree, TreePath};
use crate::schema_parts::{object, one_of, path, text};

#[derive(Debug)]
pub(crate) struct DirCreate;

#[derive(Debug, Deserialize)]
struct DirCreateInput {
    path: String,
}

impl ToolImpl for DirCreate {
    fn describe(&self) -> ToolDescription {
        ToolDescription {
            name: "dir-create",
            text: "Make a folder and those around it; one that exists stays as it is. Folders for \
                   new files need not be made first. Git keeps no empty folders."
                .to_owned(),
            input: object([("path", path("The folder."))]),
            output: object([
                ("path", text("The folder, links resolved.")),
                (
                    "result",
                    one_of(&["created", "unchanged"], "What was done."),
                ),
            ]),
            capability: Capability::read_write().with_effect(ToolEffect::NoChange),
            timeout_seconds: 60,
        }
    }

    fn run(&self, call: &ToolInvocation<'_>) -> Result<ToolOutput, ToolFailure> {
        let input: DirCreateInput = parse_input(call)?;
        let target = SandboxTree::open(call)?.resolve_path(&input.path, PathPurpose::Write)?;
        let answer = |result: &str| json!({"path": target.path, "result": result});
        match target.entry.stat.map(|stat| stat.kind()) {
            Some(FileType::Directory) => return Ok(read_only_output(answer("unchanged"))),
            Some(other) => return Err(target.wrong_kind(other, "a folder or nothing")),
            None => {}
        }
        create_folder(&target).map_err(|error| ToolFailure::Failed {
            reason: format!(
                "{} cannot be made: {}",
                target.path,
                std::io::Error::from(error)
            ),
            touched: TouchedPaths::Paths(vec![target.path.clone()]),
        })?;
        let data = answer("created");
        let touched = TouchedPaths::Paths(vec![target.path]);
        Ok(ToolOutput { data, touched })
    }
}

fn create_folder(target: &TreePath) -> Result<(), Errno> {
    let folder = target.entry.make_folder()?;
    make_and_open_owned(folder.as_fd(), &target.entry.name).map(drop)
}

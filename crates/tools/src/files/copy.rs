//! `builtin/file-copy`

use std::io::{Seek, Write};

use cleveragents_domain::tool::Capability;
use cleveragents_ports::sandbox::TouchedPaths;
use cleveragents_ports::tools::{ToolFailure, ToolInvocation, ToolOutput};
use serde::Deserialize;
use serde_json::json;

use super::relocate::check_destination;
use crate::builtin::{ToolDescription, ToolImpl, failed, invalid_input, parse_input};
use crate::file_content::read_chunks;
use crate::paths::{PathPurpose, SandboxTree};
use crate::schema_parts::{count, object, one_of, path, text};
use crate::staging::{self, write_failure};
use crate::storable::check_storable;

#[derive(Debug)]
pub(crate) struct FileCopy;

#[derive(Debug, Deserialize)]
struct FileCopyInput {
    from: String,
    to: String,
}

impl ToolImpl for FileCopy {
    fn describe(&self) -> ToolDescription {
        ToolDescription {
            name: "file-copy",
            text:
                "Copy a file, permissions included; folders it needs are made. A file that is at \
                   the destination must have been read or written before, and is replaced."
                    .to_owned(),
            input: object([
                ("from", path("The file to copy.")),
                (
                    "to",
                    path("Where the copy goes: its full path, not a folder."),
                ),
            ]),
            output: object([
                ("from", text("The file that was copied, links resolved.")),
                ("to", text("The copy.")),
                (
                    "result",
                    one_of(
                        &["created", "replaced"],
                        "What was done to the destination.",
                    ),
                ),
                ("size", count("Bytes of the copy.")),
                ("hash", text("BLAKE3 of the copy.")),
            ]),
            capability: Capability::read_write(),
            timeout_seconds: 300,
        }
    }

    fn run(&self, call: &ToolInvocation<'_>) -> Result<ToolOutput, ToolFailure> {
        let input: FileCopyInput = parse_input(call)?;
        let tree = SandboxTree::open(call)?;
        let from = tree.resolve_path(&input.from, PathPurpose::Read)?;
        let to = tree.resolve_path(&input.to, PathPurpose::Relocate)?;
        if from.path == to.path {
            return Err(invalid_input(format!(
                "{} cannot be copied to itself",
                from.path
            )));
        }
        // Opened once, so that the checked file is the copied one.
        let mut source = from.open_file()?;
        check_storable(call, &[&to])?;
        let result = check_destination(call, &to)?;
        let mode = from.entry.stat.map(|stat| stat.mode);
        let mut copied = None;
        staging::replace_file(call, &to, mode, &mut |file| {
            // Staging may ask for the content twice, if it has to write to another file system.
            let rewound = source.rewind();
            rewound.map_err(|error| failed(format!("{} cannot be read: {error}", from.path)))?;
            let digest = read_chunks(&source, &from.path, call.stop, |piece| {
                let written = file.write_all(piece);
                written.map_err(|error| write_failure(&to, &error))
            });
            copied = Some(digest?);
            Ok(())
        })?;
        let digest = copied.ok_or_else(|| failed("nothing was copied"))?;
        call.stamps.stamp(&to.path, &digest.hash);
        Ok(ToolOutput {
            data: json!({
                "from": from.path,
                "to": to.path,
                "result": result,
                "size": digest.size,
                "hash": digest.hash,
            }),
            touched: TouchedPaths::Paths(vec![to.path.clone()]),
        })
    }
}

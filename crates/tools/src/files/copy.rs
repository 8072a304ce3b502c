//! `builtin/file-copy`

use std::io::{Seek, Write};

use cleveragents_domain::tool::Capability;
use cleveragents_engine::ports::sandbox::Touched;
use cleveragents_engine::ports::tools::{Call, ToolFailure, ToolOutput};
use serde::Deserialize;
use serde_json::json;

use super::transfer::check_destination;
use crate::builtin::{Description, Work, failed, input, unusable};
use crate::place::{Purpose, Tree};
use crate::reading::read_through;
use crate::schema_parts::{count, object, one_of, path, text};
use crate::staging::{self, not_written};
use crate::storable::check_storable;

#[derive(Debug)]
pub(crate) struct FileCopy;

#[derive(Debug, Deserialize)]
struct Input {
    from: String,
    to: String,
}

impl Work for FileCopy {
    fn describe(&self) -> Description {
        Description {
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
                    one_of(&["created", "replaced"], "What became of the destination."),
                ),
                ("size", count("Bytes of the copy.")),
                ("hash", text("BLAKE3 of the copy.")),
            ]),
            capability: Capability::writes(),
            timeout_seconds: 300,
        }
    }

    fn run(&self, call: &Call<'_>) -> Result<ToolOutput, ToolFailure> {
        let input: Input = input(call)?;
        let tree = Tree::of(call)?;
        let from = tree.spot(&input.from, Purpose::Look)?;
        let to = tree.spot(&input.to, Purpose::Rearrange)?;
        if from.path == to.path {
            return Err(unusable(format!(
                "{} cannot be copied to itself",
                from.path
            )));
        }
        let mut source = from.open_file()?;
        check_storable(call, &[&to])?;
        let result = check_destination(call, &to)?;
        let mode = from.entry.stat.map(|stat| stat.mode);
        let mut copied = None;
        staging::place(call, &to, mode, &mut |file| {
            let rewound = source.rewind();
            rewound.map_err(|error| failed(format!("{} cannot be read: {error}", from.path)))?;
            let digest = read_through(&source, &from.path, call.stop, |piece| {
                let written = file.write_all(piece);
                written.map_err(|error| not_written(&to, &error))
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
            touched: Touched::Paths(vec![to.path.clone()]),
        })
    }
}

//! `builtin/file-write`

use std::io::Write;

use cleveragents_domain::tool::Capability;
use cleveragents_engine::ports::sandbox::Touched;
use cleveragents_engine::ports::tools::{Call, ToolFailure, ToolOutput};
use serde::Deserialize;
use serde_json::json;

use crate::builtin::{Description, Work, input, untouched};
use crate::place::{Purpose, Tree};
use crate::reading::digest_of;
use crate::schema_parts::{count, object, one_of, path, text};
use crate::staging::{self, not_written};
use crate::stale::may_replace;
use crate::storable::check_storable;

#[derive(Debug)]
pub(crate) struct FileWrite;

#[derive(Debug, Deserialize)]
struct Input {
    path: String,
    content: String,
}

impl Work for FileWrite {
    fn describe(&self) -> Description {
        Description {
            name: "file-write",
            text: "Write a whole file, exactly as given; folders it needs are made. A file that \
                   exists must have been read or written before, and is replaced: to change part \
                   of one, builtin/file-edit is shorter."
                .to_owned(),
            input: object([
                ("path", path("The file.")),
                (
                    "content",
                    text("The whole new content, line ends included."),
                ),
            ]),
            output: object([
                ("path", text("The file, links resolved.")),
                (
                    "result",
                    one_of(&["created", "replaced", "unchanged"], "What became of it."),
                ),
                ("size", count("Bytes of the file.")),
                ("hash", text("BLAKE3 of the file.")),
            ]),
            capability: Capability::writes(),
            timeout_seconds: 60,
        }
    }

    fn run(&self, call: &Call<'_>) -> Result<ToolOutput, ToolFailure> {
        let input: Input = input(call)?;
        let content = input.content.as_bytes();
        let spot = Tree::of(call)?.spot(&input.path, Purpose::Write)?;
        check_storable(call, &[&spot])?;
        let digest = digest_of(content);
        let answer = |result: &str| {
            json!({
                "path": spot.path,
                "result": result,
                "size": digest.size,
                "hash": digest.hash,
            })
        };
        let result = match spot.entry.stat {
            None => "created",
            Some(_) => {
                spot.expect_file()?;
                let old = may_replace(call, &spot)?;
                if old == digest {
                    return Ok(untouched(answer("unchanged")));
                }
                "replaced"
            }
        };
        staging::place(call, &spot, None, &mut |file| {
            let written = file.write_all(content);
            written.map_err(|error| not_written(&spot, &error))
        })?;
        call.stamps.stamp(&spot.path, &digest.hash);
        let touched = Touched::Paths(vec![spot.path.clone()]);
        let data = answer(result);
        Ok(ToolOutput { data, touched })
    }
}

//! `builtin/file-write`

use std::io::Write;

use cleveragents_domain::tool::Capability;
use cleveragents_ports::sandbox::TouchedPaths;
use cleveragents_ports::tools::{ToolFailure, ToolInvocation, ToolOutput};
use serde::Deserialize;
use serde_json::json;

use crate::builtin::{ToolDescription, ToolImpl, parse_input, read_only_output};
use crate::file_content::digest_content;
use crate::paths::{PathPurpose, SandboxTree};
use crate::schema_parts::{count, object, one_of, path, text};
use crate::staging::{self, write_failure};
use crate::stale_check::check_replace;
use crate::storable::check_storable;

#[derive(Debug)]
pub(crate) struct FileWrite;

#[derive(Debug, Deserialize)]
struct FileWriteInput {
    path: String,
    content: String,
}

impl ToolImpl for FileWrite {
    fn describe(&self) -> ToolDescription {
        ToolDescription {
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
                    one_of(&["created", "replaced", "unchanged"], "What was done."),
                ),
                ("size", count("Bytes of the file.")),
                ("hash", text("BLAKE3 of the file.")),
            ]),
            capability: Capability::read_write(),
            timeout_seconds: 60,
        }
    }

    fn run(&self, call: &ToolInvocation<'_>) -> Result<ToolOutput, ToolFailure> {
        let input: FileWriteInput = parse_input(call)?;
        let content = input.content.as_bytes();
        let target = SandboxTree::open(call)?.resolve_path(&input.path, PathPurpose::Write)?;
        check_storable(call, &[&target])?;
        let digest = digest_content(content);
        let answer = |result: &str| {
            json!({
                "path": target.path,
                "result": result,
                "size": digest.size,
                "hash": digest.hash,
            })
        };
        let result = match target.entry.stat {
            None => "created",
            Some(_) => {
                target.expect_file()?;
                let old = check_replace(call, &target)?;
                if old == digest {
                    return Ok(read_only_output(answer("unchanged")));
                }
                "replaced"
            }
        };
        staging::replace_file(call, &target, None, &mut |file| {
            let written = file.write_all(content);
            written.map_err(|error| write_failure(&target, &error))
        })?;
        call.stamps.stamp(&target.path, &digest.hash);
        let touched = TouchedPaths::Paths(vec![target.path.clone()]);
        let data = answer(result);
        Ok(ToolOutput { data, touched })
    }
}

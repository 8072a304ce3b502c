//! `builtin/file-read`

use cleveragents_domain::tool::Capability;
use cleveragents_ports::tools::{ToolFailure, ToolInvocation, ToolOutput};
use serde::Deserialize;
use serde_json::{Value, json};

use super::window::{MAX_BYTES, MAX_LINES, Window, WindowContent, WindowLines};
use crate::builtin::{
    ToolDescription, ToolImpl, failed, invalid_input, parse_input, read_only_output,
};
use crate::file_content::{Digest, read_chunks};
use crate::paths::{PathPurpose, SandboxTree};
use crate::schema_parts::{boolean, count, integer, object, path, text};

#[derive(Debug)]
pub(crate) struct FileRead;

#[derive(Debug, Deserialize)]
struct FileReadInput {
    path: String,
    start_line: Option<u64>,
    end_line: Option<u64>,
}

impl ToolImpl for FileRead {
    fn describe(&self) -> ToolDescription {
        ToolDescription {
            name: "file-read",
            text: format!(
                "Read a text file, or some of its lines. At most {MAX_LINES} lines and {} KiB are \
                 shown at once; `total_lines` and `truncated` say whether there is more, \
                 `start_line` and `end_line` page through it. For a binary file only size and hash \
                 are returned.",
                MAX_BYTES >> 10
            ),
            input: object([
                ("path", path("The file.")),
                (
                    "start_line?",
                    integer(1, u64::from(u32::MAX), "The first line to show, from 1."),
                ),
                (
                    "end_line?",
                    integer(1, u64::from(u32::MAX), "The last line to show."),
                ),
            ]),
            output: object([
                ("path", text("The file, links resolved.")),
                ("content?", text("The lines, exactly as they are.")),
                ("start_line?", count("The first line shown.")),
                ("end_line?", count("The last line shown.")),
                ("total_lines?", count("How many lines the file has.")),
                (
                    "truncated?",
                    boolean("Whether less is shown than requested."),
                ),
                ("binary", boolean("Whether the file is binary.")),
                ("size", count("Bytes of the whole file.")),
                ("hash", text("BLAKE3 of the whole file.")),
                ("note?", text("What is special about the file.")),
            ]),
            capability: Capability::read_only(),
            timeout_seconds: 60,
        }
    }

    fn run(&self, call: &ToolInvocation<'_>) -> Result<ToolOutput, ToolFailure> {
        let input: FileReadInput = parse_input(call)?;
        let first = input.start_line.unwrap_or(1);
        if let Some(last) = input.end_line.filter(|last| *last < first) {
            return Err(invalid_input(format!(
                "end_line {last} is before start_line {first}"
            )));
        }
        let target = SandboxTree::open(call)?.resolve_path(&input.path, PathPurpose::Read)?;
        let file = target.open_file()?;
        let mut window = Window::new(first, input.end_line);
        let digest = read_chunks(&file, &target.path, call.stop, |piece| {
            window.push(piece);
            Ok(())
        })?;
        let mut data = match window.finish(input.end_line) {
            WindowContent::Binary => {
                json!({"binary": true, "note": "a binary file: its bytes are not shown"})
            }
            WindowContent::Text(lines) if first > 1 && first > lines.total => {
                let total = lines.total;
                return Err(failed(format!(
                    "{} has {total} lines, there is no line {first}",
                    target.path
                )));
            }
            WindowContent::Text(lines) => text_output(first, &lines),
        };
        // Only after the last error: an actor that gets an error has seen nothing.
        call.stamps.stamp(&target.path, &digest.hash);
        let Digest { hash, size } = digest;
        data["path"] = json!(target.path);
        data["hash"] = json!(hash);
        data["size"] = json!(size);
        Ok(read_only_output(data))
    }
}

fn text_output(first: u64, lines: &WindowLines) -> Value {
    let mut data = json!({
        "content": String::from_utf8_lossy(&lines.bytes),
        "start_line": first,
        "end_line": lines.last,
        "total_lines": lines.total,
        "truncated": lines.is_truncated,
        "binary": false,
    });
    if std::str::from_utf8(&lines.bytes).is_err() {
        data["note"] = json!("bytes that are not UTF-8 are shown as \u{fffd}");
    }
    data
}

//! `builtin/file-read`

use cleveragents_domain::tool::Capability;
use cleveragents_engine::ports::tools::{Call, ToolFailure, ToolOutput};
use serde::Deserialize;
use serde_json::{Value, json};

use super::window::{Lines, MOST_BYTES, MOST_LINES, Seen, Window};
use crate::builtin::{Description, Work, failed, input, untouched, unusable};
use crate::place::{Purpose, Tree};
use crate::reading::{Digest, read_through};
use crate::schema_parts::{count, object, path, text, whole_number, yes_or_no};

#[derive(Debug)]
pub(crate) struct FileRead;

#[derive(Debug, Deserialize)]
struct Input {
    path: String,
    start_line: Option<u64>,
    end_line: Option<u64>,
}

impl Work for FileRead {
    fn describe(&self) -> Description {
        Description {
            name: "file-read",
            text: format!(
                "Read a text file, or some of its lines. At most {MOST_LINES} lines and {} KiB are \
                 shown at once; `total_lines` and `truncated` say whether there is more, \
                 `start_line` and `end_line` page through it. Of a binary file only size and hash \
                 are told.",
                MOST_BYTES >> 10
            ),
            input: object([
                ("path", path("The file.")),
                (
                    "start_line?",
                    whole_number(1, u64::from(u32::MAX), "The first line to show, from 1."),
                ),
                (
                    "end_line?",
                    whole_number(1, u64::from(u32::MAX), "The last line to show."),
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
                    yes_or_no("Whether less is shown than was asked for."),
                ),
                ("binary", yes_or_no("Whether the file is no text.")),
                ("size", count("Bytes of the whole file.")),
                ("hash", text("BLAKE3 of the whole file.")),
                ("note?", text("What is special about the file.")),
            ]),
            capability: Capability::reads(),
            timeout_seconds: 60,
        }
    }

    fn run(&self, call: &Call<'_>) -> Result<ToolOutput, ToolFailure> {
        let input: Input = input(call)?;
        let first = input.start_line.unwrap_or(1);
        if let Some(last) = input.end_line.filter(|last| *last < first) {
            return Err(unusable(format!(
                "end_line {last} is before start_line {first}"
            )));
        }
        let spot = Tree::of(call)?.spot(&input.path, Purpose::Look)?;
        let file = spot.open_file()?;
        let mut window = Window::new(first, input.end_line);
        let digest = read_through(&file, &spot.path, call.stop, |piece| {
            window.take(piece);
            Ok(())
        })?;
        let mut data = match window.end(input.end_line) {
            Seen::Binary => {
                json!({"binary": true, "note": "a binary file: its bytes are not shown"})
            }
            Seen::Text(lines) if first > 1 && first > lines.total => {
                let total = lines.total;
                return Err(failed(format!(
                    "{} has {total} lines, there is no line {first}",
                    spot.path
                )));
            }
            Seen::Text(lines) => of_text(first, &lines),
        };
        call.stamps.stamp(&spot.path, &digest.hash);
        let Digest { hash, size } = digest;
        data["path"] = json!(spot.path);
        data["hash"] = json!(hash);
        data["size"] = json!(size);
        Ok(untouched(data))
    }
}

fn of_text(first: u64, lines: &Lines) -> Value {
    let mut data = json!({
        "content": String::from_utf8_lossy(&lines.bytes),
        "start_line": first,
        "end_line": lines.last,
        "total_lines": lines.total,
        "truncated": lines.is_cut,
        "binary": false,
    });
    if std::str::from_utf8(&lines.bytes).is_err() {
        data["note"] = json!("bytes that are not UTF-8 are shown as \u{fffd}");
    }
    data
}

//! `builtin/git-status`, `builtin/git-diff` and `builtin/git-log`: the sandbox's changes, and the
//! history of its base.
//!
//! Differences are between captured trees: from the base to the tree after the last confirmed call.
//! Nothing here runs git or reads what an agent may have written into `.git`.

use cleveragents_domain::ResourcePath;
use cleveragents_domain::tool::Capability;
use cleveragents_ports::sandbox::{DiffChange, DiffLines, DiffStat};
use cleveragents_ports::tools::{ToolFailure, ToolInvocation, ToolOutput};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::builtin::{ToolDescription, ToolImpl, parse_input, read_only_output};
use crate::excerpt::trim_partial_end;
use crate::paths::parse_readable_path;
use crate::schema_parts::{boolean, count, integer, list, object, one_of, path, text};

/// Maximum number of files, and of patch bytes, shown.
const MAX_FILES: usize = 1000;
const MAX_PATCH_BYTES: usize = 256 << 10;

/// Default and maximum number of commits shown.
const DEFAULT_COMMITS: u32 = 20;
const MAX_COMMITS: u32 = 200;

/// Maximum number of characters of a commit's subject and of an author's name.
const MAX_TEXT: usize = 200;

/// The line before the content of a binary file in a patch.
const BINARY: &[u8] = b"GIT binary patch\n";

#[derive(Debug)]
pub(crate) struct GitStatus;

#[derive(Debug)]
pub(crate) struct GitDiff;

#[derive(Debug)]
pub(crate) struct GitLog;

#[derive(Debug, Deserialize)]
struct GitDiffInput {
    path: Option<String>,
}

#[derive(Debug, Deserialize)]
struct GitLogInput {
    path: Option<String>,
    limit: Option<u32>,
}

impl ToolImpl for GitStatus {
    fn describe(&self) -> ToolDescription {
        ToolDescription {
            name: "git-status",
            text:
                "List the files this sandbox has changed since it was created, with line counts. \
                   Ignored files are not listed."
                    .to_owned(),
            input: object([]),
            output: object([
                ("files", files_schema()),
                ("left_out", count("How many more files changed.")),
            ]),
            capability: Capability::read_only(),
            timeout_seconds: 60,
        }
    }

    fn run(&self, call: &ToolInvocation<'_>) -> Result<ToolOutput, ToolFailure> {
        let base = call.sandbox.base();
        let diff = call.sandbox.diff(base, call.tree, &[], call.stop)?;
        let files = &diff.files[..diff.files.len().min(MAX_FILES)];
        Ok(read_only_output(json!({
            "files": files.iter().map(file_data).collect::<Vec<Value>>(),
            "left_out": diff.files.len() - files.len(),
        })))
    }
}

impl ToolImpl for GitDiff {
    fn describe(&self) -> ToolDescription {
        ToolDescription {
            name: "git-diff",
            text: format!(
                "Show what this sandbox has changed since it was created, as a patch: everything, \
                 or one \
                 file or folder. At most {} KiB are shown; of binary files only that they changed.",
                MAX_PATCH_BYTES >> 10
            ),
            input: object([(
                "path?",
                path("The file or folder; everything if it is left out."),
            )]),
            output: object([
                ("patch", text("The changes.")),
                ("files", files_schema()),
                (
                    "left_out",
                    count("How many bytes of the patch are not shown."),
                ),
                (
                    "truncated",
                    boolean("Whether any of the patch is not shown."),
                ),
            ]),
            capability: Capability::read_only(),
            timeout_seconds: 60,
        }
    }

    fn run(&self, call: &ToolInvocation<'_>) -> Result<ToolOutput, ToolFailure> {
        let input: GitDiffInput = parse_input(call)?;
        let path = input
            .path
            .as_deref()
            .map(parse_readable_path)
            .transpose()?
            .flatten();
        let paths: Vec<ResourcePath> = path.into_iter().collect();
        let base = call.sandbox.base();
        let diff = call.sandbox.diff(base, call.tree, &paths, call.stop)?;
        let patch = strip_binary_patches(&diff.patch);
        let shown = truncate_at_line(&patch, MAX_PATCH_BYTES);
        let files = &diff.files[..diff.files.len().min(MAX_FILES)];
        Ok(read_only_output(json!({
            "patch": String::from_utf8_lossy(shown),
            "files": files.iter().map(file_data).collect::<Vec<Value>>(),
            "left_out": patch.len() - shown.len(),
            "truncated": shown.len() < patch.len(),
        })))
    }
}

impl ToolImpl for GitLog {
    fn describe(&self) -> ToolDescription {
        ToolDescription {
            name: "git-log",
            text: "List the commits this sandbox started from, newest first: all, or those of one \
                 file or folder. The sandbox's own changes are not committed yet."
                .to_owned(),
            input: object([
                (
                    "path?",
                    path("The file or folder; everything if it is left out."),
                ),
                (
                    "limit?",
                    integer(
                        1,
                        u64::from(MAX_COMMITS),
                        "How many commits at most; 20 if it is left out.",
                    ),
                ),
            ]),
            output: object([(
                "commits",
                list(
                    object([
                        ("id", text("The beginning of its id.")),
                        ("author", text("Who wrote it.")),
                        ("time", text("When it was written, UTC.")),
                        ("subject", text("The first line of its message.")),
                    ]),
                    "The commits; none if there is no history.",
                ),
            )]),
            capability: Capability::read_only(),
            timeout_seconds: 60,
        }
    }

    fn run(&self, call: &ToolInvocation<'_>) -> Result<ToolOutput, ToolFailure> {
        let input: GitLogInput = parse_input(call)?;
        let path = input
            .path
            .as_deref()
            .map(parse_readable_path)
            .transpose()?
            .flatten();
        let limit = input.limit.unwrap_or(DEFAULT_COMMITS).min(MAX_COMMITS);
        let commits = call.sandbox.log(path.as_ref(), limit)?;
        let short = |text: &str| text.chars().take(MAX_TEXT).collect::<String>();
        let commits = commits.iter().map(|commit| {
            json!({
                "id": commit.id,
                "author": short(&commit.author),
                "time": format_time(commit.seconds),
                "subject": short(&commit.subject),
            })
        });
        Ok(read_only_output(
            json!({"commits": commits.collect::<Vec<Value>>()}),
        ))
    }
}

fn format_time(seconds: i64) -> String {
    match jiff::Timestamp::from_second(seconds) {
        Ok(time) => time.to_string(),
        Err(_) => format!("{seconds} s after 1970"),
    }
}

fn files_schema() -> Value {
    let changes = ["added", "deleted", "modified", "renamed", "retyped"];
    list(
        object([
            ("path", text("The file.")),
            ("change", one_of(&changes, "What was done.")),
            ("from?", text("Where it was before it was renamed.")),
            ("inserted?", count("New lines.")),
            ("deleted?", count("Lines that are gone.")),
            ("binary", boolean("Whether it is binary.")),
        ]),
        "The files that changed.",
    )
}

fn file_data(file: &DiffStat) -> Value {
    let change = match file.change {
        DiffChange::Added => "added",
        DiffChange::Deleted => "deleted",
        DiffChange::Modified => "modified",
        DiffChange::Renamed => "renamed",
        DiffChange::Retyped => "retyped",
    };
    let mut data = json!({"path": file.path, "change": change});
    if let Some(from) = &file.renamed_from {
        data["from"] = json!(from);
    }
    data["binary"] = json!(file.lines == DiffLines::Binary);
    if let DiffLines::Text { inserted, deleted } = file.lines {
        data["inserted"] = json!(inserted);
        data["deleted"] = json!(deleted);
    }
    data
}

/// Removes the content of binary files from a patch, because it is not readable.
fn strip_binary_patches(patch: &[u8]) -> Vec<u8> {
    let mut readable = Vec::with_capacity(patch.len());
    let mut is_binary = false;
    for line in patch.split_inclusive(|byte| *byte == b'\n') {
        // The next file may be text again.
        if line.starts_with(b"diff --git ") {
            is_binary = false;
        }
        if !is_binary {
            readable.extend_from_slice(if line == BINARY {
                b"Binary content differs\n"
            } else {
                line
            });
        }
        is_binary |= line == BINARY;
    }
    readable
}

fn truncate_at_line(patch: &[u8], most: usize) -> &[u8] {
    if patch.len() <= most {
        return patch;
    }
    match memchr::memrchr(b'\n', &patch[..most]) {
        Some(newline) => &patch[..=newline],
        None => trim_partial_end(&patch[..most]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_content_is_omitted_from_a_patch() {
        let patch =
            b"diff --git a/x b/x\nGIT binary patch\nliteral 3\nKcmZ\n\ndiff --git a/y b/y\n+1\n";
        let expected = "diff --git a/x b/x\nBinary content differs\ndiff --git a/y b/y\n+1\n";
        assert_eq!(
            String::from_utf8(strip_binary_patches(patch)).unwrap(),
            expected
        );
    }

    #[test]
    fn a_patch_is_truncated_at_a_line() {
        assert_eq!(truncate_at_line(b"ab\ncd\nef\n", 7), b"ab\ncd\n");
        assert_eq!(truncate_at_line(b"ab\n", 3), b"ab\n");
        assert_eq!(truncate_at_line("aé".as_bytes(), 2), b"a");
    }
}

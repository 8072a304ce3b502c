//! `builtin/file-edit`

use std::io::Write;

use cleveragents_domain::tool::Capability;
use cleveragents_ports::sandbox::TouchedPaths;
use cleveragents_ports::tools::{ToolFailure, ToolInvocation, ToolOutput};
use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::json;

use super::{match_hints, patch};
use crate::builtin::{ToolDescription, ToolImpl, failed, invalid_input, parse_input, stopped};
use crate::file_content::{digest_content, read_whole};
use crate::paths::{PathPurpose, SandboxTree};
use crate::schema_parts::{boolean, count, non_empty_text, object, path, text};
use crate::staging::{self, write_failure};
use crate::stale_check::check_content_change;
use crate::storable::check_storable;

/// Files are edited in memory up to this size.
const MAX_BYTES: usize = 32 << 20;

#[derive(Debug)]
pub(crate) struct FileEdit;

#[derive(Debug, Deserialize)]
struct FileEditInput {
    path: String,
    old: String,
    new: String,
    #[serde(default)]
    all: bool,
}

impl ToolImpl for FileEdit {
    fn describe(&self) -> ToolDescription {
        ToolDescription {
            name: "file-edit",
            text: "Replace a piece of text in a file. `old` must be there exactly once, character \
                   for character and line ends included: give enough of the lines around it, or \
                   set `all` to replace it wherever it is. The answer shows what changed."
                .to_owned(),
            input: object([
                ("path", path("The file.")),
                ("old", non_empty_text("The current text.")),
                (
                    "new",
                    text("The text to put in its place; empty to remove it."),
                ),
                ("all?", boolean("Replace it wherever it is, not only once.")),
            ]),
            output: object([
                ("path", text("The file, links resolved.")),
                ("replaced", count("How many places were changed.")),
                (
                    "diff",
                    text("What changed, as a diff; the rest is left out if it is long."),
                ),
                ("size", count("Bytes of the file.")),
                ("hash", text("BLAKE3 of the file.")),
            ]),
            capability: Capability::read_write(),
            timeout_seconds: 60,
        }
    }

    fn run(&self, call: &ToolInvocation<'_>) -> Result<ToolOutput, ToolFailure> {
        let input: FileEditInput = parse_input(call)?;
        // Almost always a mistake of the model, so it gets an error instead of a silent success.
        if input.old == input.new {
            return Err(invalid_input("`old` and `new` are the same"));
        }
        let target = SandboxTree::open(call)?.resolve_path(&input.path, PathPurpose::Write)?;
        let file = target.open_file()?;
        check_storable(call, &[&target])?;
        // Content and stamp come from one read of one open file, so they belong together.
        let (content, digest) = read_whole(&file, &target.path, call.stop, MAX_BYTES)?;
        check_content_change(call, &target, &content, &digest)?;
        let matches = find_matches(&content, &input)
            .map_err(|why| failed(format!("{} was not changed: {why}", target.path)))?;
        let edited = replace_matches(&content, &matches, &input)
            .ok_or_else(|| failed(format!("{} would become too large", target.path)))?;
        // The last moment at which stopping changes nothing.
        call.stop.check().map_err(stopped)?;
        staging::replace_file(call, &target, None, &mut |file| {
            let written = file.write_all(&edited);
            written.map_err(|error| write_failure(&target, &error))
        })?;
        let digest = digest_content(&edited);
        call.stamps.stamp(&target.path, &digest.hash);
        let change = patch::EditDiff {
            content: &content,
            offsets: &matches,
            length: input.old.len(),
            new: input.new.as_bytes(),
        };
        Ok(ToolOutput {
            data: json!({
                "path": target.path,
                "replaced": matches.len(),
                "diff": change.render(),
                "size": digest.size,
                "hash": digest.hash,
            }),
            touched: TouchedPaths::Paths(vec![target.path]),
        })
    }
}

/// Returns the offsets of `old`, or why they are missing or ambiguous.
fn find_matches(content: &[u8], input: &FileEditInput) -> Result<Vec<usize>, String> {
    let finder = Finder::new(&input.old);
    let matches: Vec<usize> = finder.find_iter(content).collect();
    let Some(first) = matches.first() else {
        return Err(match_hints::no_match_message(content, &input.old));
    };
    if input.all {
        return Ok(matches);
    }
    // A text may overlap with itself: `aa` is twice in `aaa`.
    match finder.find(&content[first + 1..]) {
        None => Ok(matches),
        Some(_) => {
            let all = overlapping_matches(&finder, content);
            Err(match_hints::ambiguous_match_message(content, &all))
        }
    }
}

fn overlapping_matches(finder: &Finder<'_>, content: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = finder.find(&content[from..]) {
        found.push(from + at);
        from += at + 1;
    }
    found
}

/// Returns the content with every match replaced, or `None` if that is far too large.
fn replace_matches(content: &[u8], matches: &[usize], input: &FileEditInput) -> Option<Vec<u8>> {
    let (old, new) = (input.old.len(), input.new.as_bytes());
    let grown = matches.len().checked_mul(new.len())?;
    let size = content.len().checked_add(grown)? - matches.len() * old;
    // Computed before the allocation: many matches of a short text can multiply the size.
    if size > 2 * MAX_BYTES {
        return None;
    }
    let mut edited = Vec::with_capacity(size);
    let mut from = 0;
    for place in matches {
        edited.extend_from_slice(&content[from..*place]);
        edited.extend_from_slice(new);
        from = place + old;
    }
    edited.extend_from_slice(&content[from..]);
    Some(edited)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn edit_input(old: &str, new: &str, all: bool) -> FileEditInput {
        FileEditInput {
            path: "a".into(),
            old: old.into(),
            new: new.into(),
            all,
        }
    }

    #[test]
    fn a_text_that_overlaps_with_itself_is_ambiguous() {
        let error = find_matches(b"aaa", &edit_input("aa", "b", false)).unwrap_err();
        assert!(error.contains("2 times"), "{error}");
        assert_eq!(
            find_matches(b"aaa", &edit_input("aa", "b", true)),
            Ok(vec![0])
        );
    }

    proptest! {
        #[test]
        fn replacing_all_equals_str_replace(
            content in "[ab\\n]{0,60}", old in "[ab\\n]{1,3}", new in "[abc\\n]{0,4}",
        ) {
            prop_assume!(old != new);
            let input = edit_input(&old, &new, true);
            match find_matches(content.as_bytes(), &input) {
                Ok(places) => {
                    let edited = replace_matches(content.as_bytes(), &places, &input).unwrap();
                    prop_assert_eq!(String::from_utf8(edited).unwrap(), content.replace(&old, &new));
                }
                Err(_) => prop_assert!(!content.contains(&old)),
            }
        }

        #[test]
        fn a_single_edit_needs_exactly_one_match(content in "[ab\\n]{0,40}", old in "[ab\\n]{1,3}") {
            let input = edit_input(&old, "new", false);
            let count = (0..content.len()).filter(|at| content[*at..].starts_with(&old)).count();
            match find_matches(content.as_bytes(), &input) {
                Ok(places) => prop_assert_eq!((places.len(), count), (1, 1)),
                Err(_) => prop_assert!(count != 1),
            }
        }
    }
}

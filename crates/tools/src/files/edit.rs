//! `builtin/file-edit`

use std::io::Write;

use cleveragents_domain::tool::Capability;
use cleveragents_engine::ports::sandbox::Touched;
use cleveragents_engine::ports::tools::{Call, ToolFailure, ToolOutput};
use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::json;

use super::{near, patch};
use crate::builtin::{Description, Work, failed, input, stopped, unusable};
use crate::place::{Purpose, Tree};
use crate::reading::{digest_of, read_whole};
use crate::schema_parts::{count, object, path, some_text, text, yes_or_no};
use crate::staging::{self, not_written};
use crate::stale::may_change_content;
use crate::storable::check_storable;

/// The largest file that can be edited in memory.
const MOST_BYTES: usize = 32 << 20;

#[derive(Debug)]
pub(crate) struct FileEdit;

#[derive(Debug, Deserialize)]
struct Input {
    path: String,
    old: String,
    new: String,
    #[serde(default)]
    all: bool,
}

impl Work for FileEdit {
    fn describe(&self) -> Description {
        Description {
            name: "file-edit",
            text: "Replace a piece of text in a file. `old` must be there exactly once, character \
                   for character and line ends included: give enough of the lines around it, or \
                   set `all` to replace it wherever it is. The answer shows what changed."
                .to_owned(),
            input: object([
                ("path", path("The file.")),
                ("old", some_text("The text that is there now.")),
                (
                    "new",
                    text("The text to put in its place; empty to remove it."),
                ),
                (
                    "all?",
                    yes_or_no("Replace it wherever it is, not only once."),
                ),
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
            capability: Capability::writes(),
            timeout_seconds: 60,
        }
    }

    fn run(&self, call: &Call<'_>) -> Result<ToolOutput, ToolFailure> {
        let input: Input = input(call)?;
        if input.old == input.new {
            return Err(unusable("`old` and `new` are the same"));
        }
        let spot = Tree::of(call)?.spot(&input.path, Purpose::Write)?;
        let file = spot.open_file()?;
        check_storable(call, &[&spot])?;
        let (content, digest) = read_whole(&file, &spot.path, call.stop, MOST_BYTES)?;
        may_change_content(call, &spot, &content, &digest)?;
        let places = places(&content, &input)
            .map_err(|why| failed(format!("{} was not changed: {why}", spot.path)))?;
        let edited = replace(&content, &places, &input)
            .ok_or_else(|| failed(format!("{} would become too large", spot.path)))?;
        call.stop.check().map_err(stopped)?;
        staging::place(call, &spot, None, &mut |file| {
            let written = file.write_all(&edited);
            written.map_err(|error| not_written(&spot, &error))
        })?;
        let digest = digest_of(&edited);
        call.stamps.stamp(&spot.path, &digest.hash);
        let change = patch::Change {
            content: &content,
            places: &places,
            length: input.old.len(),
            new: input.new.as_bytes(),
        };
        Ok(ToolOutput {
            data: json!({
                "path": spot.path,
                "replaced": places.len(),
                "diff": change.show(),
                "size": digest.size,
                "hash": digest.hash,
            }),
            touched: Touched::Paths(vec![spot.path]),
        })
    }
}

/// Where `old` is, or why that is not good enough.
fn places(content: &[u8], input: &Input) -> Result<Vec<usize>, String> {
    let finder = Finder::new(&input.old);
    let places: Vec<usize> = finder.find_iter(content).collect();
    let Some(first) = places.first() else {
        return Err(near::not_found(content, &input.old));
    };
    if input.all {
        return Ok(places);
    }
    // A text may overlap with itself: `aa` is twice in `aaa`.
    match finder.find(&content[first + 1..]) {
        None => Ok(places),
        Some(_) => {
            let all = overlapping(&finder, content);
            Err(near::ambiguous(content, &all))
        }
    }
}

fn overlapping(finder: &Finder<'_>, content: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = finder.find(&content[from..]) {
        found.push(from + at);
        from += at + 1;
    }
    found
}

/// The content with every place changed; nothing if that is far too much.
fn replace(content: &[u8], places: &[usize], input: &Input) -> Option<Vec<u8>> {
    let (old, new) = (input.old.len(), input.new.as_bytes());
    let grown = places.len().checked_mul(new.len())?;
    let size = content.len().checked_add(grown)? - places.len() * old;
    if size > 2 * MOST_BYTES {
        return None;
    }
    let mut edited = Vec::with_capacity(size);
    let mut from = 0;
    for place in places {
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

    fn asked(old: &str, new: &str, all: bool) -> Input {
        Input {
            path: "a".into(),
            old: old.into(),
            new: new.into(),
            all,
        }
    }

    #[test]
    fn a_text_that_overlaps_with_itself_is_ambiguous() {
        let error = places(b"aaa", &asked("aa", "b", false)).unwrap_err();
        assert!(error.contains("2 times"), "{error}");
        assert_eq!(places(b"aaa", &asked("aa", "b", true)), Ok(vec![0]));
    }

    proptest! {
        #[test]
        fn all_replaces_as_strings_do(
            content in "[ab\\n]{0,60}", old in "[ab\\n]{1,3}", new in "[abc\\n]{0,4}",
        ) {
            prop_assume!(old != new);
            let input = asked(&old, &new, true);
            match places(content.as_bytes(), &input) {
                Ok(places) => {
                    let edited = replace(content.as_bytes(), &places, &input).unwrap();
                    prop_assert_eq!(String::from_utf8(edited).unwrap(), content.replace(&old, &new));
                }
                Err(_) => prop_assert!(!content.contains(&old)),
            }
        }

        #[test]
        fn once_is_exactly_once(content in "[ab\\n]{0,40}", old in "[ab\\n]{1,3}") {
            let input = asked(&old, "new", false);
            let count = (0..content.len()).filter(|at| content[*at..].starts_with(&old)).count();
            match places(content.as_bytes(), &input) {
                Ok(places) => prop_assert_eq!((places.len(), count), (1, 1)),
                Err(_) => prop_assert!(count != 1),
            }
        }
    }
}

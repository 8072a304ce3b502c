//! `builtin/file-list`

use std::collections::BinaryHeap;

use cleveragents_domain::ResourcePath;
use cleveragents_domain::tool::Capability;
use cleveragents_engine::ports::tools::{Call, ToolFailure, ToolOutput};
use rustix::fs::FileType;
use serde::Deserialize;
use serde_json::{Value, json};

use super::walk::{Met, Visitor, walk};
use crate::builtin::{Description, Work, input, untouched};
use crate::place::{Purpose, Somewhere, Tree, kind_word};
use crate::schema_parts::{count, list, object, one_of, path, text, whole_number};

/// The most entries that are shown.
const MOST_ENTRIES: usize = 1000;

/// How deep a listing may go.
const MOST_DEPTH: u64 = 100;

#[derive(Debug)]
pub(crate) struct FileList;

#[derive(Debug, Deserialize)]
struct Input {
    path: Option<String>,
    depth: Option<u64>,
}

impl Work for FileList {
    fn describe(&self) -> Description {
        let kinds = ["file", "folder", "link", "FIFO", "socket", "device"];
        Description {
            name: "file-list",
            text: format!(
                "List what is in a folder, in order of paths; what `.gitignore` ignores is left \
                 out. At most {MOST_ENTRIES} entries are shown, those nearest to the folder first; \
                 `left_out` counts the rest."
            ),
            input: object([
                ("path?", path("The folder; the root if it is left out.")),
                (
                    "depth?",
                    whole_number(
                        1,
                        MOST_DEPTH,
                        "How many levels to show; 1 if it is left out.",
                    ),
                ),
            ]),
            output: object([
                ("path", text("The folder, links resolved; `.` is the root.")),
                (
                    "entries",
                    list(
                        object([
                            ("path", text("Relative to the root of the sandbox.")),
                            ("kind", one_of(&kinds, "What it is.")),
                            ("size?", count("Bytes of a file.")),
                        ]),
                        "What is there.",
                    ),
                ),
                ("left_out", count("How many more entries there are.")),
                (
                    "unreadable?",
                    list(text("A folder."), "Folders that cannot be looked into."),
                ),
            ]),
            capability: Capability::reads(),
            timeout_seconds: 60,
        }
    }

    fn run(&self, call: &Call<'_>) -> Result<ToolOutput, ToolFailure> {
        let input: Input = input(call)?;
        let tree = Tree::of(call)?;
        let start = tree.find(input.path.as_deref().unwrap_or("."), Purpose::Look)?;
        if let Somewhere::Spot(spot) = &start {
            match spot.kind()? {
                FileType::Directory => {}
                other => return Err(spot.is_instead(other, "a folder")),
            }
        }
        let mut listing = Listing {
            depth: usize::try_from(input.depth.unwrap_or(1)).unwrap_or(usize::MAX),
            nearest: BinaryHeap::new(),
            total: 0,
            unreadable: Vec::new(),
        };
        walk(call, &tree, &start, &mut listing)?;
        Ok(untouched(listing.tell(&start)))
    }
}

/// The entries nearest to where the walk began, and how many there are.
struct Listing {
    depth: usize,
    /// The farthest on top, so that it makes room for nearer ones.
    nearest: BinaryHeap<Listed>,
    total: usize,
    unreadable: Vec<ResourcePath>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Listed {
    depth: usize,
    path: ResourcePath,
    kind: &'static str,
    size: Option<u64>,
}

impl Visitor for Listing {
    fn meet(&mut self, met: Met<'_>) -> Result<(), ToolFailure> {
        self.total += 1;
        let kind = met.stat.kind();
        self.nearest.push(Listed {
            depth: met.depth,
            path: met.path,
            kind: kind_word(kind),
            size: (kind == FileType::RegularFile).then_some(met.stat.size),
        });
        if self.nearest.len() > MOST_ENTRIES {
            self.nearest.pop();
        }
        Ok(())
    }

    fn goes_into(&self, depth: usize) -> bool {
        depth < self.depth
    }

    fn unreadable(&mut self, path: ResourcePath) {
        if self.unreadable.len() < MOST_ENTRIES {
            self.unreadable.push(path);
        }
    }
}

impl Listing {
    fn tell(self, start: &Somewhere) -> Value {
        let left_out = self.total - self.nearest.len();
        let mut entries = self.nearest.into_vec();
        entries.sort_by(|one, other| one.path.cmp(&other.path));
        let entries = entries.into_iter().map(|entry| {
            let mut data = json!({"path": entry.path, "kind": entry.kind});
            if let Some(size) = entry.size {
                data["size"] = json!(size);
            }
            data
        });
        let path = match start {
            Somewhere::Root => ".".to_owned(),
            Somewhere::Spot(spot) => spot.path.to_string(),
        };
        let mut data = json!({
            "path": path,
            "entries": entries.collect::<Vec<Value>>(),
            "left_out": left_out,
        });
        if !self.unreadable.is_empty() {
            data["unreadable"] = json!(self.unreadable);
        }
        data
    }
}

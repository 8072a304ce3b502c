//! `builtin/file-list`

use std::collections::BinaryHeap;

use cleveragents_domain::ResourcePath;
use cleveragents_domain::tool::Capability;
use cleveragents_ports::tools::{ToolFailure, ToolInvocation, ToolOutput};
use rustix::fs::FileType;
use serde::Deserialize;
use serde_json::{Value, json};

use super::walk::{Visitor, WalkEntry, walk};
use crate::builtin::{ToolDescription, ToolImpl, parse_input, read_only_output};
use crate::paths::{PathPurpose, SandboxTree, TreeLocation, kind_name};
use crate::schema_parts::{count, integer, list, object, one_of, path, text};

/// Maximum number of entries shown.
const MAX_ENTRIES: usize = 1000;

/// Maximum depth of a listing.
const MAX_DEPTH: u64 = 100;

#[derive(Debug)]
pub(crate) struct FileList;

#[derive(Debug, Deserialize)]
struct FileListInput {
    path: Option<String>,
    depth: Option<u64>,
}

impl ToolImpl for FileList {
    fn describe(&self) -> ToolDescription {
        let kinds = ["file", "folder", "link", "FIFO", "socket", "device"];
        ToolDescription {
            name: "file-list",
            text: format!(
                "List what is in a folder, in order of paths; what `.gitignore` ignores is left \
                 out. At most {MAX_ENTRIES} entries are shown, those nearest to the folder first; \
                 `left_out` counts the rest."
            ),
            input: object([
                ("path?", path("The folder; the root if it is left out.")),
                (
                    "depth?",
                    integer(
                        1,
                        MAX_DEPTH,
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
                        "The entries.",
                    ),
                ),
                ("left_out", count("How many more entries there are.")),
                (
                    "unreadable?",
                    list(text("A folder."), "Folders that cannot be read."),
                ),
            ]),
            capability: Capability::read_only(),
            timeout_seconds: 60,
        }
    }

    fn run(&self, call: &ToolInvocation<'_>) -> Result<ToolOutput, ToolFailure> {
        let input: FileListInput = parse_input(call)?;
        let tree = SandboxTree::open(call)?;
        let start = tree.resolve(input.path.as_deref().unwrap_or("."), PathPurpose::Read)?;
        if let TreeLocation::Path(target) = &start {
            match target.kind()? {
                FileType::Directory => {}
                other => return Err(target.wrong_kind(other, "a folder")),
            }
        }
        let mut listing = FileListing {
            depth: usize::try_from(input.depth.unwrap_or(1)).unwrap_or(usize::MAX),
            nearest: BinaryHeap::new(),
            total: 0,
            unreadable: Vec::new(),
        };
        walk(call, &tree, &start, &mut listing)?;
        Ok(read_only_output(listing.into_output(&start)))
    }
}

/// The entries nearest to the start of the walk, and the total number.
struct FileListing {
    depth: usize,
    /// A max-heap by distance, so that the farthest entry is replaced first.
    nearest: BinaryHeap<ListedEntry>,
    total: usize,
    unreadable: Vec<ResourcePath>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct ListedEntry {
    depth: usize,
    path: ResourcePath,
    kind: &'static str,
    size: Option<u64>,
}

impl Visitor for FileListing {
    fn visit(&mut self, entry: WalkEntry<'_>) -> Result<(), ToolFailure> {
        self.total += 1;
        let kind = entry.stat.kind();
        self.nearest.push(ListedEntry {
            depth: entry.depth,
            path: entry.path,
            kind: kind_name(kind),
            size: (kind == FileType::RegularFile).then_some(entry.stat.size),
        });
        if self.nearest.len() > MAX_ENTRIES {
            self.nearest.pop();
        }
        Ok(())
    }

    fn should_descend(&self, depth: usize) -> bool {
        depth < self.depth
    }

    fn visit_unreadable(&mut self, path: ResourcePath) {
        if self.unreadable.len() < MAX_ENTRIES {
            self.unreadable.push(path);
        }
    }
}

impl FileListing {
    fn into_output(self, start: &TreeLocation) -> Value {
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
            TreeLocation::Root => ".".to_owned(),
            TreeLocation::Path(target) => target.path.to_string(),
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

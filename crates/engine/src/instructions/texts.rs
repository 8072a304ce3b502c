//! `AGENTS.md` files: the one at the root, and for each relevant path the nearest one above it.

use std::collections::{BTreeMap, BTreeSet};

use cleveragents_domain::ResourcePath;

use super::{ResourceFiles, Warnings, decode_text, join_path};

const FILE: &str = "AGENTS.md";

/// Maximum size of all texts together, in bytes.
pub const TOTAL_MAXIMUM: usize = 32 << 10;

/// Maximum number of files.
pub const TEXTS_MAXIMUM: usize = 50;

/// Appended to a truncated text.
const TRUNCATION_NOTE: &str = "\n[The rest of this file is left out.]\n";

/// The instructions of a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Instructions {
    /// The root's first, the deepest last. If two contradict each other, the later one applies.
    pub texts: Vec<Instruction>,
    pub warnings: Vec<String>,
}

/// One text, as used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    pub path: ResourcePath,
    pub text: String,
    /// BLAKE3 of `text`.
    pub hash: String,
}

/// Returns the instructions for work at these paths, which may be files or folders. If they are too
/// long, the nearest are kept and those further up are truncated.
pub fn find_instructions(files: &dyn ResourceFiles, about: &[ResourcePath]) -> Instructions {
    let mut search = InstructionSearch {
        files,
        texts: BTreeMap::new(),
        warnings: Warnings::default(),
    };
    let mut found: BTreeSet<InstructionFolder> = BTreeSet::new();
    if search.has_text(None) {
        found.insert(InstructionFolder::of(None));
    }
    for path in about {
        let nearest = path_and_ancestors(path)
            .into_iter()
            .find(|it| search.has_text(Some(it)));
        found.extend(nearest.map(|folder| InstructionFolder::of(Some(folder))));
    }
    search.finish(found.into_iter().collect())
}

/// A folder, in the order in which instructions are given.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct InstructionFolder {
    depth: usize,
    folder: Option<ResourcePath>,
}

impl InstructionFolder {
    fn of(folder: Option<ResourcePath>) -> Self {
        let parts = |it: &ResourcePath| it.as_bytes().split(|byte| *byte == b'/').count();
        let depth = folder.as_ref().map_or(0, parts);
        Self { depth, folder }
    }
}

/// Returns the path and every folder above it except the root, nearest first.
fn path_and_ancestors(path: &ResourcePath) -> Vec<ResourcePath> {
    let mut bytes = path.as_bytes();
    let mut all = vec![path.clone()];
    while let Some(at) = bytes.iter().rposition(|byte| *byte == b'/') {
        bytes = &bytes[..at];
        all.extend(ResourcePath::from_bytes(bytes));
    }
    all
}

struct InstructionSearch<'a> {
    files: &'a dyn ResourceFiles,
    /// The text of each folder's file, so that none is read twice.
    texts: BTreeMap<Option<ResourcePath>, Option<String>>,
    warnings: Warnings,
}

impl InstructionSearch<'_> {
    fn has_text(&mut self, folder: Option<&ResourcePath>) -> bool {
        let folder = folder.cloned();
        if let Some(known) = self.texts.get(&folder) {
            return known.is_some();
        }
        let text = self.read_text(folder.as_ref());
        let has = text.is_some();
        self.texts.insert(folder, text);
        has
    }

    fn read_text(&mut self, folder: Option<&ResourcePath>) -> Option<String> {
        let path = join_path(folder, FILE)?;
        let most = TOTAL_MAXIMUM + 1;
        let bytes = match self.files.read(&path, most) {
            Ok(bytes) => bytes?,
            Err(error) => {
                self.warnings.add(error.to_string());
                return None;
            }
        };
        let text = decode_text(bytes, most);
        if text.is_none() {
            self.warnings
                .add(format!("{path} is left out: it is not UTF-8 text"));
        }
        text.filter(|text| !text.trim().is_empty())
    }

    /// The nearest folders get room first.
    fn finish(mut self, mut places: Vec<InstructionFolder>) -> Instructions {
        let surplus = places.len().saturating_sub(TEXTS_MAXIMUM);
        if surplus > 0 {
            let what = format!("{surplus} more {FILE} are left out: {TEXTS_MAXIMUM} are used");
            self.warnings.add(what);
            places.drain(..surplus);
        }
        let mut room = TOTAL_MAXIMUM;
        let mut texts = Vec::new();
        for InstructionFolder { folder, .. } in places.into_iter().rev() {
            let path = join_path(folder.as_ref(), FILE);
            let text = self.texts.remove(&folder).flatten();
            let (Some(path), Some(text)) = (path, text) else {
                continue;
            };
            let whole = text.len();
            let text = truncate_to_fit(text, room);
            if text.len() < whole {
                let what = if text.is_empty() {
                    "is left out"
                } else {
                    "is cut"
                };
                self.warnings.add(format!(
                    "{path} {what}: instructions may have {TOTAL_MAXIMUM} bytes in all"
                ));
            }
            room -= text.len();
            if !text.is_empty() {
                let hash = blake3::hash(text.as_bytes()).to_hex().to_string();
                texts.push(Instruction { path, text, hash });
            }
        }
        texts.reverse();
        let warnings = self.warnings.finish();
        Instructions { texts, warnings }
    }
}

/// Returns as many whole lines of `text` as fit, with a note about the rest. Empty if not even the
/// note fits.
fn truncate_to_fit(mut text: String, room: usize) -> String {
    if text.len() <= room {
        return text;
    }
    let Some(most) = room.checked_sub(TRUNCATION_NOTE.len()) else {
        return String::new();
    };
    let end = text.floor_char_boundary(most);
    let end = match text[..end].rfind('\n') {
        Some(line) => line,
        None => end,
    };
    text.truncate(end);
    if text.trim().is_empty() {
        String::new()
    } else {
        text + TRUNCATION_NOTE
    }
}

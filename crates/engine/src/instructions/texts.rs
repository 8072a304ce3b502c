//! `AGENTS.md`: the one at the root, and for each path that matters the nearest one above it.

use std::collections::{BTreeMap, BTreeSet};

use cleveragents_domain::ResourcePath;

use super::{ResourceFiles, Warnings, inside, text_of};

/// The name of the files.
const FILE: &str = "AGENTS.md";

/// How many bytes all texts may have together.
pub const TOTAL_MAXIMUM: usize = 32 << 10;

/// How many files are heard.
pub const TEXTS_MAXIMUM: usize = 50;

/// What stands at the end of a text of which a part was left out.
const LEFT_OUT: &str = "\n[The rest of this file is left out.]\n";

/// What a resource's own files say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Instructions {
    /// The root's first and the deepest last: where two contradict each other the later one holds.
    pub texts: Vec<Instruction>,
    pub warnings: Vec<String>,
}

/// One text as it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    pub path: ResourcePath,
    pub text: String,
    /// BLAKE3 of `text`.
    pub hash: String,
}

/// The instructions for work at these paths, which may be files or folders. If they are too much,
/// the nearest keep theirs and those further up are cut.
pub fn find_instructions(files: &dyn ResourceFiles, about: &[ResourcePath]) -> Instructions {
    let mut search = Search {
        files,
        known: BTreeMap::new(),
        warnings: Warnings::default(),
    };
    let mut found: BTreeSet<Place> = BTreeSet::new();
    if search.has_text(None) {
        found.insert(Place::of(None));
    }
    for path in about {
        let nearest = upwards(path)
            .into_iter()
            .find(|it| search.has_text(Some(it)));
        found.extend(nearest.map(|folder| Place::of(Some(folder))));
    }
    search.conclude(found.into_iter().collect())
}

/// A folder, in the order in which instructions are told.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    depth: usize,
    folder: Option<ResourcePath>,
}

impl Place {
    fn of(folder: Option<ResourcePath>) -> Self {
        let parts = |it: &ResourcePath| it.as_bytes().split(|byte| *byte == b'/').count();
        let depth = folder.as_ref().map_or(0, parts);
        Self { depth, folder }
    }
}

/// The path itself and every folder above it but the root, the nearest first.
fn upwards(path: &ResourcePath) -> Vec<ResourcePath> {
    let mut bytes = path.as_bytes();
    let mut all = vec![path.clone()];
    while let Some(at) = bytes.iter().rposition(|byte| *byte == b'/') {
        bytes = &bytes[..at];
        all.extend(ResourcePath::from_bytes(bytes));
    }
    all
}

struct Search<'a> {
    files: &'a dyn ResourceFiles,
    /// What the file of each folder says, so that none is read twice.
    known: BTreeMap<Option<ResourcePath>, Option<String>>,
    warnings: Warnings,
}

impl Search<'_> {
    fn has_text(&mut self, folder: Option<&ResourcePath>) -> bool {
        let folder = folder.cloned();
        if let Some(known) = self.known.get(&folder) {
            return known.is_some();
        }
        let text = self.read(folder.as_ref());
        let has = text.is_some();
        self.known.insert(folder, text);
        has
    }

    fn read(&mut self, folder: Option<&ResourcePath>) -> Option<String> {
        let path = inside(folder, FILE)?;
        let most = TOTAL_MAXIMUM + 1;
        let bytes = match self.files.read(&path, most) {
            Ok(bytes) => bytes?,
            Err(error) => {
                self.warnings.add(error.to_string());
                return None;
            }
        };
        let text = text_of(bytes, most);
        if text.is_none() {
            self.warnings
                .add(format!("{path} is left out: it is not UTF-8 text"));
        }
        text.filter(|text| !text.trim().is_empty())
    }

    /// What is nearest has room first.
    fn conclude(mut self, mut places: Vec<Place>) -> Instructions {
        let surplus = places.len().saturating_sub(TEXTS_MAXIMUM);
        if surplus > 0 {
            let what = format!("{surplus} more {FILE} are left out: {TEXTS_MAXIMUM} are heard");
            self.warnings.add(what);
            places.drain(..surplus);
        }
        let mut room = TOTAL_MAXIMUM;
        let mut texts = Vec::new();
        for Place { folder, .. } in places.into_iter().rev() {
            let path = inside(folder.as_ref(), FILE);
            let text = self.known.remove(&folder).flatten();
            let (Some(path), Some(text)) = (path, text) else {
                continue;
            };
            let whole = text.len();
            let text = fitted(text, room);
            if text.len() < whole {
                let what = match text.is_empty() {
                    true => "is left out",
                    false => "is cut",
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
        let warnings = self.warnings.conclude();
        Instructions { texts, warnings }
    }
}

/// As much of `text` as there is room for: whole lines, and a note that there was more. Nothing if
/// there is no room even for the note.
fn fitted(mut text: String, room: usize) -> String {
    if text.len() <= room {
        return text;
    }
    let Some(most) = room.checked_sub(LEFT_OUT.len()) else {
        return String::new();
    };
    let end = text.floor_char_boundary(most);
    let end = match text[..end].rfind('\n') {
        Some(line) => line,
        None => end,
    };
    text.truncate(end);
    match text.trim().is_empty() {
        true => String::new(),
        false => text + LEFT_OUT,
    }
}

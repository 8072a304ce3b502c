//! Which paths are ignored: the `.gitignore` files of the tree as it is now, below them the rules
//! the user had when the sandbox was made.
//!
//! The live files count, because an agent that adds a build tool also adds what it leaves behind.
//! It cannot hide anything that way: a tracked path is captured whatever the rules say.

use std::io::Read;
use std::os::fd::BorrowedFd;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::file_access::open_file;
use crate::path_from_bytes;

/// The most of a rules file that is read.
const MAX_BYTES: u64 = 1 << 20;

/// How names are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameCase {
    Sensitive,
    Insensitive,
}

impl NameCase {
    /// As the setting `core.ignorecase` among these says.
    pub fn from_settings(shaping: &[(String, String)]) -> Self {
        let yes = |(key, value): &(String, String)| {
            key == "core.ignorecase" && value.eq_ignore_ascii_case("true")
        };
        match shaping.iter().any(yes) {
            true => Self::Insensitive,
            false => Self::Sensitive,
        }
    }
}

/// The rules of one folder, on top of those of the folders around it.
#[derive(Debug)]
pub struct IgnoreRules<'a> {
    parent: Option<&'a IgnoreRules<'a>>,
    own: Gitignore,
    /// How many bytes of a path lead to this folder.
    prefix: usize,
    case: NameCase,
}

impl<'a> IgnoreRules<'a> {
    /// Rules that hold everywhere unless a folder says otherwise.
    pub fn global(content: &[u8], case: NameCase) -> Self {
        Self {
            parent: None,
            own: build(content, case),
            prefix: 0,
            case,
        }
    }

    /// With the rules of the folder `path` (empty for the root).
    pub fn for_folder(&'a self, path: &[u8], content: &[u8]) -> IgnoreRules<'a> {
        IgnoreRules {
            parent: Some(self),
            own: build(content, self.case),
            prefix: if path.is_empty() { 0 } else { path.len() + 1 },
            case: self.case,
        }
    }

    /// Whether the rules name this path. That folders around it are not ignored is the caller's
    /// to know.
    pub fn is_ignored(&self, path: &[u8], kind: IgnoreEntryKind) -> bool {
        let mut rules = Some(self);
        while let Some(here) = rules {
            let relative = path_from_bytes(&path[here.prefix..]);
            match here
                .own
                .matched(relative, kind == IgnoreEntryKind::Directory)
            {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => rules = here.parent,
            }
        }
        false
    }
}

/// What a path is; some rules are for folders only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IgnoreEntryKind {
    Directory,
    Other,
}

/// The rules that a folder's own `.gitignore` holds, if it is a file.
pub fn read_gitignore(folder: BorrowedFd<'_>) -> Vec<u8> {
    let file = open_file(folder, b".gitignore").ok();
    let file = file.filter(|file| file.metadata().is_ok_and(|it| it.is_file()));
    file.map(read_rules).unwrap_or_default()
}

/// Reads a rules file no further than makes sense.
pub fn read_rules(file: impl Read) -> Vec<u8> {
    let mut content = Vec::new();
    // What cannot be read has no rules.
    let _ = file.take(MAX_BYTES).read_to_end(&mut content);
    content
}

fn build(content: &[u8], case: NameCase) -> Gitignore {
    // Most folders have none.
    if content.is_empty() {
        return Gitignore::empty();
    }
    let mut builder = GitignoreBuilder::new(".");
    // The setter fails only after a pattern was added.
    let _ = builder.case_insensitive(case == NameCase::Insensitive);
    for line in content.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        // As in git, a line that is no pattern matches nothing.
        let _ = builder.add_line(None, &String::from_utf8_lossy(line));
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_rule_wins() {
        let everywhere = IgnoreRules::global(b"*.log\n/top\n", NameCase::Sensitive);
        let root = everywhere.for_folder(b"", b"target/\n!keep.log\n/a/only\n");
        let inner = root.for_folder(b"a", b"!x.log\nlocal\n/here\n");
        for (rules, path, kind, ignored) in [
            (&root, "x.log", IgnoreEntryKind::Other, true),
            (&root, "keep.log", IgnoreEntryKind::Other, false),
            (&root, "target", IgnoreEntryKind::Directory, true),
            (&root, "target", IgnoreEntryKind::Other, false),
            (&root, "top", IgnoreEntryKind::Other, true),
            (&root, "b/top", IgnoreEntryKind::Other, false),
            (&inner, "a/x.log", IgnoreEntryKind::Other, false),
            (&inner, "a/y.log", IgnoreEntryKind::Other, true),
            (&inner, "a/local", IgnoreEntryKind::Other, true),
            (&inner, "a/here", IgnoreEntryKind::Other, true),
            (&inner, "a/b/here", IgnoreEntryKind::Other, false),
            (&inner, "a/only", IgnoreEntryKind::Other, true),
            (&inner, "a/target", IgnoreEntryKind::Directory, true),
        ] {
            assert_eq!(rules.is_ignored(path.as_bytes(), kind), ignored, "{path}");
        }
    }
}

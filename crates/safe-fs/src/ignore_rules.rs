//! Decides which paths are ignored: by the `.gitignore` files currently in the tree, and with lower
//! precedence by the rules that the user had when the sandbox was created.
//!
//! The current files count because an agent that adds a build tool also ignores its output. An agent
//! cannot hide changes this way: a tracked path is captured whatever the rules say.

use std::io::Read;
use std::os::fd::BorrowedFd;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::file_access::open_file;
use crate::path_from_bytes;

/// Rule files are read up to this size.
const MAX_BYTES: u64 = 1 << 20;

/// Comparison of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameCase {
    Sensitive,
    Insensitive,
}

impl NameCase {
    /// Reads `core.ignorecase` from these settings.
    pub fn from_settings(shaping: &[(String, String)]) -> Self {
        let yes = |(key, value): &(String, String)| {
            key == "core.ignorecase" && value.eq_ignore_ascii_case("true")
        };
        if shaping.iter().any(yes) {
            Self::Insensitive
        } else {
            Self::Sensitive
        }
    }
}

/// The rules of one folder, on top of those of its parents.
#[derive(Debug)]
pub struct IgnoreRules<'a> {
    parent: Option<&'a IgnoreRules<'a>>,
    own: Gitignore,
    /// Length in bytes of the path of this folder, including the trailing slash.
    prefix: usize,
    case: NameCase,
}

impl<'a> IgnoreRules<'a> {
    /// Rules that apply everywhere unless a folder overrides them.
    pub fn global(content: &[u8], case: NameCase) -> Self {
        Self {
            parent: None,
            own: build(content, case),
            prefix: 0,
            case,
        }
    }

    /// Adds the rules of the folder `path` (empty for the root).
    pub fn for_folder(&'a self, path: &[u8], content: &[u8]) -> IgnoreRules<'a> {
        IgnoreRules {
            parent: Some(self),
            own: build(content, self.case),
            prefix: if path.is_empty() { 0 } else { path.len() + 1 },
            case: self.case,
        }
    }

    /// Returns whether the rules match this path. The caller must check the parent folders.
    pub fn is_ignored(&self, path: &[u8], kind: IgnoreEntryKind) -> bool {
        // As in git, the rules of the innermost folder decide first.
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

/// The type of a path. Some rules match folders only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IgnoreEntryKind {
    Directory,
    Other,
}

/// Returns the content of the folder's `.gitignore`, or nothing if it is not a regular file.
pub fn read_gitignore(folder: BorrowedFd<'_>) -> Vec<u8> {
    let file = open_file(folder, b".gitignore").ok();
    let file = file.filter(|file| file.metadata().is_ok_and(|it| it.is_file()));
    file.map(read_rules).unwrap_or_default()
}

/// Reads a rule file up to `MAX_BYTES`.
pub fn read_rules(file: impl Read) -> Vec<u8> {
    let mut content = Vec::new();
    // A file that cannot be read has no rules.
    let _ = file.take(MAX_BYTES).read_to_end(&mut content);
    content
}

fn build(content: &[u8], case: NameCase) -> Gitignore {
    // Most folders have no rules.
    if content.is_empty() {
        return Gitignore::empty();
    }
    let mut builder = GitignoreBuilder::new(".");
    // The setter fails only after a pattern was added.
    let _ = builder.case_insensitive(case == NameCase::Insensitive);
    for line in content.split(|byte| *byte == b'\n') {
        // As in git, a file with CRLF line ends has the same rules.
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        // As in git, an invalid pattern matches nothing.
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

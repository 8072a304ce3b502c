//! Names that git refuses in its trees.

use rustix::fs::FileType;

/// Git treats every upper and lower case spelling of this name as a repository.
pub fn is_dot_git(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b".git")
}

/// Returns whether git refuses this name in trees because some file system treats it as `.git`.
pub fn is_refused_name(name: &[u8], kind: FileType) -> bool {
    // Some systems treat a backslash as a path separator.
    let starts = name.split(|byte| *byte == b'\\').scan(0, |at, part| {
        let start = *at;
        *at += part.len() + 1;
        Some(start)
    });
    let mut tails = starts.map(|start| &name[start..]);
    let is_repository =
        |tail: &[u8]| is_ntfs_spelling(tail, b".git") || is_ntfs_spelling(tail, b"git~1");
    let is_link = kind == FileType::Symlink;
    tails.any(is_repository) || is_hfs_spelling(name, b".git") || (is_link && is_gitmodules(name))
}

/// Returns whether some file system treats this name as `.gitmodules`.
pub fn is_gitmodules(name: &[u8]) -> bool {
    is_ntfs_spelling(name, b".gitmodules")
        || is_hfs_spelling(name, b".gitmodules")
        || is_short_gitmodules(name)
}

/// NTFS ignores case, trailing spaces and dots, and everything after a colon.
fn is_ntfs_spelling(name: &[u8], expected: &[u8]) -> bool {
    let rest = match name.split_at_checked(expected.len()) {
        Some((first, rest)) if first.eq_ignore_ascii_case(expected) => rest,
        _ => return false,
    };
    let end = rest.iter().position(|byte| !matches!(byte, b' ' | b'.'));
    end.is_none_or(|at| matches!(rest[at], b':' | b'\\'))
}

/// HFS+ ignores case and invisible characters. Like git, reads up to the first byte that is not valid
/// UTF-8.
fn is_hfs_spelling(name: &[u8], expected: &[u8]) -> bool {
    let text = name.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let shown: String = text.chars().filter(|it| !is_invisible(*it)).collect();
    shown.as_bytes().eq_ignore_ascii_case(expected)
}

/// Direction marks, joiners and similar characters.
fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}'
    )
}

/// Matches the 8.3 short names that a file system may give to `.gitmodules`.
fn is_short_gitmodules(name: &[u8]) -> bool {
    let lower = name.to_ascii_lowercase();
    lower.starts_with(b"gitmod~") || lower.starts_with(b"gi7eba")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_refused_by_git_are_detected() {
        let file = FileType::RegularFile;
        for (name, kind, refused) in [
            (&b".git"[..], file, true),
            (b".git ..", file, true),
            (b".GIT::$INDEX_ALLOCATION", file, true),
            (b"git~1", file, true),
            (b"GIT~1.", file, true),
            (b"git~10", file, false),
            (".g\u{200c}it".as_bytes(), file, true),
            ("\u{feff}.GIT\u{206f}".as_bytes(), file, true),
            (".g\u{301}it".as_bytes(), file, false),
            (b".git\xff", file, true),
            (b"a\\.git", file, true),
            (b"a\\GIT~1\\b", file, true),
            (b"a\\b", file, false),
            (b"", file, false),
            (".gitm\u{200d}odules".as_bytes(), FileType::Symlink, true),
            (b".gitignore", file, false),
            (b".git-blame", file, false),
            (b".gitmodules", file, false),
            (b".gitmodules", FileType::Symlink, true),
            (b"gitmod~1", FileType::Symlink, true),
            (b".gitattributes", FileType::Symlink, false),
        ] {
            assert_eq!(is_refused_name(name, kind), refused, "{name:?}");
        }
    }
}

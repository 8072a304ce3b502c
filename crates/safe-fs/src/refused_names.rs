//! Names git keeps out of its trees.

use rustix::fs::FileType;

/// Git treats every spelling of this name as a repository.
pub fn is_dot_git(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b".git")
}

/// Names git keeps out of every tree because some file system would take them for `.git`.
pub fn is_refused_name(name: &[u8], kind: FileType) -> bool {
    // To some systems a backslash ends a name.
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

/// Whether some file system would take a name for `.gitmodules`.
pub fn is_gitmodules(name: &[u8]) -> bool {
    is_ntfs_spelling(name, b".gitmodules")
        || is_hfs_spelling(name, b".gitmodules")
        || is_short_gitmodules(name)
}

/// NTFS ignores case, spaces and dots at the end, and what follows a colon.
fn is_ntfs_spelling(name: &[u8], expected: &[u8]) -> bool {
    let rest = match name.split_at_checked(expected.len()) {
        Some((first, rest)) if first.eq_ignore_ascii_case(expected) => rest,
        _ => return false,
    };
    let end = rest.iter().position(|byte| !matches!(byte, b' ' | b'.'));
    end.is_none_or(|at| matches!(rest[at], b':' | b'\\'))
}

/// HFS+ ignores case and characters that are not shown. Git reads up to the first byte that is no
/// text.
fn is_hfs_spelling(name: &[u8], expected: &[u8]) -> bool {
    let text = name.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let shown: String = text.chars().filter(|it| !is_invisible(*it)).collect();
    shown.as_bytes().eq_ignore_ascii_case(expected)
}

/// Marks of direction, joiners and their like.
fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}'
    )
}

/// What `.gitmodules` may be called where names have eight letters.
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

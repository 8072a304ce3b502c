//! Names git keeps out of its trees.

use rustix::fs::FileType;

/// Git treats every spelling of this name as a repository.
pub fn is_dot_git(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b".git")
}

/// Names git keeps out of every tree because some file system would take them for `.git`.
pub fn is_refused_name(name: &[u8], kind: FileType) -> bool {
    let looks_like = |start: &[u8]| {
        let rest = match name.split_at_checked(start.len()) {
            Some((first, rest)) if first.eq_ignore_ascii_case(start) => rest,
            _ => return false,
        };
        let end = rest.iter().position(|byte| !matches!(byte, b' ' | b'.'));
        end.is_none_or(|at| matches!(rest[at], b':' | b'\\'))
    };
    let link = kind == FileType::Symlink;
    looks_like(b".git")
        || looks_like(b"git~1")
        || (link && (looks_like(b".gitmodules") || is_short_gitmodules(name)))
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
    fn names_that_git_keeps_out_are_known() {
        let file = FileType::RegularFile;
        for (name, kind, refused) in [
            (&b".git"[..], file, true),
            (b".git ..", file, true),
            (b".GIT::$INDEX_ALLOCATION", file, true),
            (b"git~1", file, true),
            (b"GIT~1.", file, true),
            (b"git~10", file, false),
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

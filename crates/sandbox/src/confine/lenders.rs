//! The repositories that a sandbox's store borrows objects from, by what the host wrote into it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Repositories may borrow from one that borrows itself, but not for ever.
const MOST_LENDERS: usize = 16;

/// The folders of objects that the store with these objects borrows from.
pub(super) fn lenders(objects: &Path) -> Vec<PathBuf> {
    let mut found = BTreeSet::new();
    let mut next = vec![objects.to_owned()];
    while let Some(borrower) = next.pop() {
        let lines = fs::read(borrower.join("info/alternates")).unwrap_or_default();
        for line in lines.split(|byte| *byte == b'\n') {
            let Some(path) = alternate(line) else {
                continue;
            };
            let lender = borrower.join(path);
            if found.len() < MOST_LENDERS && found.insert(lender.clone()) {
                next.push(lender);
            }
        }
    }
    found.into_iter().collect()
}

/// The path on one line of `info/alternates`; what git would quote is quoted as in C.
fn alternate(line: &[u8]) -> Option<PathBuf> {
    let quoted = match line {
        [] | [b'#', ..] => return None,
        [b'"', inside @ .., b'"'] => inside,
        plain => return Some(OsString::from_vec(plain.to_vec()).into()),
    };
    let mut path = Vec::new();
    let mut bytes = quoted.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            path.push(byte);
            continue;
        }
        match bytes.next()? {
            digit @ b'0'..=b'3' => {
                let digits = [digit, bytes.next()?, bytes.next()?];
                let digits = std::str::from_utf8(&digits).ok()?.to_owned();
                path.push(u8::from_str_radix(&digits, 8).ok()?);
            }
            b'n' => path.push(b'\n'),
            b't' => path.push(b'\t'),
            other => path.push(other),
        }
    }
    Some(OsString::from_vec(path).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_alternates_is_a_path_of_any_bytes() {
        for (line, path) in [
            (&b"/home/a/objects"[..], Some(&b"/home/a/objects"[..])),
            (b"../other/objects", Some(b"../other/objects")),
            (b"\"/a b\"", Some(b"/a b")),
            (b"\"/a\\012\\377\\\"\\\\\"", Some(b"/a\n\xff\"\\")),
            (b"# a remark", None),
            (b"", None),
            (b"\"/a\\9", Some(b"\"/a\\9")),
        ] {
            let expected = path.map(|path| PathBuf::from(OsString::from_vec(path.to_vec())));
            assert_eq!(alternate(line), expected);
        }
    }

    #[test]
    fn lenders_of_lenders_are_found_and_circles_end() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        for (objects, other) in [(&one, &two), (&two, &one)] {
            fs::create_dir_all(objects.join("info")).unwrap();
            let line = format!("{}\n", other.display());
            crate::files::replace(&objects.join("info/alternates"), line.as_bytes()).unwrap();
        }
        assert_eq!(lenders(&one), [one.clone(), two.clone()]);
        assert!(lenders(folder.path()).is_empty());
    }
}

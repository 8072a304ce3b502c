//! Finds the object store that a sandbox borrows from, as the host wrote it into the sandbox's store.
//!
//! Only that one becomes readable. The `info/alternates` of the user's repository is not followed: it
//! may be of foreign origin and may name any folder of the machine.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Returns the object stores that the store with these objects borrows from directly.
pub(super) fn read_alternates(objects: &Path) -> Vec<PathBuf> {
    let lines = fs::read(objects.join("info/alternates")).unwrap_or_default();
    let lines = lines.split(|byte| *byte == b'\n');
    let paths = lines.filter_map(|line| Some(objects.join(parse_alternate(line)?)));
    paths.filter(|path| is_object_store(path)).collect()
}

/// Returns whether this is the object store of a repository. A link of that name may lead anywhere.
fn is_object_store(path: &Path) -> bool {
    let is_folder = path.symlink_metadata().is_ok_and(|found| found.is_dir());
    let is_in_repository = path.with_file_name("HEAD").is_file();
    is_folder && is_in_repository && path.ends_with("objects")
}

/// Returns the path on one line of `info/alternates`. Git quotes special characters as in C.
fn parse_alternate(line: &[u8]) -> Option<PathBuf> {
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
            assert_eq!(parse_alternate(line), expected);
        }
    }

    #[test]
    fn only_object_stores_are_accepted_as_alternates() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let put = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            crate::files::replace(&path, text.as_bytes()).unwrap();
        };
        for path in ["one/HEAD", "one/objects/pack/x", "home/.ssh/id", "two/HEAD"] {
            put(path, "");
        }
        std::os::unix::fs::symlink(root.join("home/.ssh"), root.join("two/objects")).unwrap();
        let lines = [
            "one/objects",
            "home/.ssh",
            "two/objects",
            "gone/objects",
            "one",
        ];
        let lines = lines.map(|line| format!("{}\n", root.join(line).display()));
        put("own/info/alternates", &lines.concat());
        put("one/objects/info/alternates", &lines[1]);
        assert_eq!(
            read_alternates(&root.join("own")),
            [root.join("one/objects")]
        );
        assert!(read_alternates(root).is_empty());
    }
}

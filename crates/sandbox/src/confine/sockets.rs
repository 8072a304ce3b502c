//! Sockets of services that have a path. A read-only file system does not keep anybody from
//! talking to them, so each one that can be seen is covered.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;

use super::policy::{Access, Rules};

/// Sockets that exist now where a command could see them.
pub(super) fn visible(rules: &Rules) -> Vec<PathBuf> {
    let listed = paths(&fs::read("/proc/net/unix").unwrap_or_default());
    let mut found: Vec<PathBuf> = listed
        .into_iter()
        .filter_map(|path| path.canonicalize().ok())
        .filter(|path| rules.access_to(path) == Access::Readable)
        .filter(|path| {
            path.symlink_metadata()
                .is_ok_and(|it| it.file_type().is_socket())
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The absolute paths in the kernel's list: what stands behind the seventh field.
fn paths(list: &[u8]) -> Vec<PathBuf> {
    let lines = list.split(|byte| *byte == b'\n');
    let paths = lines.filter_map(|line| {
        let at = line.iter().position(|byte| *byte == b'/')?;
        Some(OsString::from_vec(line[at..].to_vec()).into())
    });
    paths.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sockets_with_a_path_are_listed() {
        let list = b"Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 17 /run/a b\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 18\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 19 @abstract\n";
        assert_eq!(paths(list), [PathBuf::from("/run/a b")]);
    }

    #[test]
    fn a_socket_in_a_readable_place_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("socket");
        let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(visible(&Rules::default()).contains(&path));
        let mut rules = Rules::default();
        rules.add(folder.path(), Access::Private);
        assert!(!visible(&rules).contains(&path));
    }
}

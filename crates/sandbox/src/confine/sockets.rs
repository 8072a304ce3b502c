//! Finds sockets of services that have a path. A read-only mount does not prevent connecting to them,
//! so each visible one is covered.
//!
//! The kernel lists them per network namespace, by the name they were bound to. A relative name is
//! resolved against the working directories of the processes in that namespace.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;

use super::policy::{AccessRules, PathAccess};

/// Returns existing sockets that a command could see.
pub(super) fn visible_sockets(rules: &AccessRules) -> Vec<PathBuf> {
    let mut found = BTreeSet::new();
    for namespace in list_namespaces() {
        let list = fs::read(namespace.list).unwrap_or_default();
        let (absolute, relative): (Vec<PathBuf>, Vec<PathBuf>) = parse_paths(&list)
            .into_iter()
            .partition(|path| path.is_absolute());
        found.extend(absolute);
        if relative.is_empty() {
            continue;
        }
        for process in &namespace.processes {
            let folder = fs::read_link(process.join("cwd")).unwrap_or_default();
            found.extend(relative.iter().map(|path| folder.join(path)));
        }
    }
    let is_socket = |path: &PathBuf| {
        let found = path.symlink_metadata();
        found.is_ok_and(|found| found.file_type().is_socket())
    };
    let real = found.iter().filter_map(|path| path.canonicalize().ok());
    let seen = real.filter(|path| rules.access_to(path) >= PathAccess::Readable);
    let seen: BTreeSet<PathBuf> = seen.filter(is_socket).collect();
    seen.into_iter().collect()
}

/// A network namespace that we can inspect.
struct NetworkNamespace {
    /// The kernel's list of its sockets.
    list: PathBuf,
    /// The folders in `/proc` of its processes.
    processes: Vec<PathBuf>,
}

/// Returns the namespaces of all processes that we may inspect, ours first.
fn list_namespaces() -> Vec<NetworkNamespace> {
    let mut names: Vec<PathBuf> = Vec::new();
    let mut found: Vec<NetworkNamespace> = Vec::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbered = entries
        .map(|entry| entry.path())
        .filter(|path| is_number(path.file_name().unwrap_or_default()));
    for process in [PathBuf::from("/proc/self")].into_iter().chain(numbered) {
        let Ok(name) = fs::read_link(process.join("ns/net")) else {
            continue;
        };
        match names.iter().position(|known| *known == name) {
            Some(at) => found[at].processes.push(process),
            None => {
                names.push(name);
                found.push(NetworkNamespace {
                    list: process.join("net/unix"),
                    processes: vec![process],
                });
            }
        }
    }
    found
}

fn is_number(name: &OsStr) -> bool {
    name.as_bytes().iter().all(u8::is_ascii_digit)
}

/// Returns the paths in the kernel's list. The path follows the seventh field.
fn parse_paths(list: &[u8]) -> Vec<PathBuf> {
    let lines = list.split(|byte| *byte == b'\n').skip(1);
    let paths = lines.filter_map(|line| {
        // Fields are padded with spaces on the left.
        let mut rest = line;
        for _ in 0..7 {
            let start = rest.iter().position(|byte| *byte != b' ')?;
            let length = rest[start..].iter().position(|byte| *byte == b' ')?;
            rest = &rest[start + length..];
        }
        let name = rest.strip_prefix(b" ")?;
        // Abstract sockets have no path; the kernel lists them with a leading `@`.
        let has_path = !name.is_empty() && !name.starts_with(b"@");
        has_path.then(|| OsString::from_vec(name.to_vec()).into())
    });
    paths.collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn only_sockets_with_a_path_are_listed() {
        let list = b"Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01    17 /run/a b\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 18\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 19 @abstract\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 20 beside\n";
        assert_eq!(
            parse_paths(list),
            [Path::new("/run/a b"), Path::new("beside")]
        );
    }

    #[test]
    fn a_socket_in_a_readable_folder_is_listed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("socket");
        let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let mut rules = AccessRules::default();
        rules.add(folder.path(), PathAccess::Readable);
        assert!(visible_sockets(&rules).contains(&path));
        rules.add(folder.path(), PathAccess::Writable);
        assert!(visible_sockets(&rules).contains(&path));
        rules.add(folder.path(), PathAccess::Private);
        assert!(!visible_sockets(&rules).contains(&path));
    }
}

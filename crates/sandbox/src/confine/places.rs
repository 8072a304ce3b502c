//! What on a machine a command may see and change.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use cleveragents_engine::ports::processes::{ConfinedCommand, TreeAccess};

use super::level::Wanted;
use super::policy::{Access, Rules};

/// What the machine is like for commands; wiring gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessSettings {
    /// Our own executable, which becomes the supervisor.
    pub program: PathBuf,
    /// The bubblewrap program, if there is one.
    pub bubblewrap: Option<PathBuf>,
    pub wanted: Wanted,
    /// Unreadable but for the sandbox that a command runs in.
    pub data_directory: PathBuf,
    /// The user's home, in which credentials are hidden.
    pub home: Option<PathBuf>,
    /// What a command may write beside its sandbox.
    pub writable: Vec<PathBuf>,
    /// The whole environment of a command but for `HOME` and `TMPDIR`.
    pub variables: Vec<(OsString, OsString)>,
}

/// Folders in which everybody leaves things, sockets of services among them.
const SHARED: [&str; 3] = ["/tmp", "/var/tmp", "/run"];

/// What programs need of those folders: how names are resolved, and the system of NixOS.
const SHARED_BUT_NEEDED: [&str; 6] = [
    "/run/current-system",
    "/run/opengl-driver",
    "/run/systemd/resolve/stub-resolv.conf",
    "/run/systemd/resolve/resolv.conf",
    "/run/resolvconf/resolv.conf",
    "/run/NetworkManager/resolv.conf",
];

/// Where people keep what opens other doors, in their home.
const CREDENTIALS: [&str; 29] = [
    ".ssh",
    ".aws",
    ".gnupg",
    ".netrc",
    ".config/gh",
    ".config/hub",
    ".config/glab-cli",
    ".config/gcloud",
    ".config/git/credentials",
    ".config/op",
    ".config/rclone",
    ".config/sops",
    ".azure",
    ".kube",
    ".docker",
    ".git-credentials",
    ".npmrc",
    ".yarnrc",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".terraform.d",
    ".vault-token",
    ".password-store",
    ".local/share/keyrings",
    ".mozilla",
    ".bash_history",
];

/// What files with secrets in a project are called, and what they begin with.
const SECRET_FILES: &str = ".env";

/// Repositories may borrow from one that borrows itself, but not for ever.
const MOST_LENDERS: usize = 16;

/// The rules for one command on this machine.
pub(super) fn rules(settings: &ProcessSettings, command: &ConfinedCommand) -> Rules {
    let mut rules = Rules::default();
    for path in SHARED {
        rules.add(Path::new(path), Access::Private);
    }
    for path in SHARED_BUT_NEEDED {
        rules.add(Path::new(path), Access::Readable);
    }
    for path in credentials(settings.home.as_deref()) {
        rules.add(&path, Access::Hidden);
    }
    // Whatever somebody configured, other sandboxes and the database stay closed.
    let data = &settings.data_directory;
    for path in settings.writable.iter().filter(|it| !it.starts_with(data)) {
        rules.add(path, Access::Writable);
    }
    rules.add(data, Access::Hidden);
    let store = command.tree.with_file_name("git");
    for objects in lenders(&store.join("objects")) {
        for path in secret_files(&working_tree(&objects)) {
            rules.add(&path, Access::Hidden);
        }
        rules.add(&objects, Access::Readable);
    }
    rules.add(&store, Access::Readable);
    let access = match command.access {
        TreeAccess::ReadOnly => Access::Readable,
        TreeAccess::Writable => Access::Writable,
    };
    rules.add(&command.tree, access);
    rules.add(&command.scratch, Access::Writable);
    rules
}

fn credentials(home: Option<&Path>) -> Vec<PathBuf> {
    let Some(home) = home else {
        return Vec::new();
    };
    let known = CREDENTIALS.iter().map(|name| home.join(name));
    known.chain(secret_files(home)).collect()
}

/// The files with secrets that lie directly in a folder.
fn secret_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_secret = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        name.as_bytes().starts_with(SECRET_FILES.as_bytes())
    };
    entries
        .map(|entry| entry.path())
        .filter(is_secret)
        .collect()
}

/// Where the files are of the repository with these objects: beside its `.git`.
fn working_tree(objects: &Path) -> PathBuf {
    let git_dir = objects.parent().unwrap_or(objects);
    match git_dir.file_name().is_some_and(|name| name == ".git") {
        true => git_dir.parent().unwrap_or(git_dir).to_owned(),
        false => git_dir.to_owned(),
    }
}

/// The folders of objects that a store borrows from, by what the host wrote into it.
fn lenders(objects: &Path) -> Vec<PathBuf> {
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

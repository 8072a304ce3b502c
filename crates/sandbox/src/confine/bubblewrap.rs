//! Confinement by namespaces: what bubblewrap is told.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cleveragents_domain::process::Network;

use super::grants::{Grant, grants};
use super::policy::{Access, Bubblewrap, OwnFolders, Policy, Rules, UserNamespaces};

/// Where our own program is in the sandbox: the last to run before the command.
pub(super) const PROGRAM: &str = "/run/agents";

/// Where a machine has most of its mounts.
const MANY_MOUNTS: &str = "/sys";

/// What the program needs of root to become the command's own user.
const CAPABILITIES: [&str; 3] = ["CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"];

/// The least that a folder in memory holds.
const SMALLEST_FOLDER: u64 = 1 << 20;

/// What a command line depends on beside the policy.
pub(super) struct Sandbox<'a> {
    /// Our own program.
    pub(super) program: &'a Path,
    /// Files nobody may open.
    pub(super) covered: &'a [PathBuf],
    /// Bytes that all folders of the command in memory hold together.
    pub(super) memory: u64,
    /// A file descriptor that bubblewrap inherits and writes to how the command ended.
    pub(super) status: i32,
}

/// Everything of the command line before the command.
pub(super) fn arguments(
    policy: &Policy,
    bubblewrap: &Bubblewrap,
    sandbox: &Sandbox<'_>,
) -> Vec<OsString> {
    let mut line = Line::default();
    line.namespaces(bubblewrap.user_namespaces, policy.network);
    line.file_system(&policy.rules, bubblewrap, sandbox.memory);
    for path in sandbox.covered {
        line.words(["--ro-bind", "/dev/null"]).path(path);
    }
    line.words(["--ro-bind"])
        .path(sandbox.program)
        .path(PROGRAM);
    line.seal();
    // The tree may belong to another user, whom only our program becomes.
    line.words(["--chdir", "/"]);
    line.words(["--json-status-fd", &sandbox.status.to_string(), "--"]);
    line.0
}

/// A command line that only tries whether all of it works here.
pub(super) fn trial(bubblewrap: &Bubblewrap) -> Vec<OsString> {
    let mut line = Line::default();
    line.namespaces(bubblewrap.user_namespaces, Network::Deny);
    let mut rules = Rules::default();
    rules.add(Path::new("/"), Access::Readable);
    line.file_system(&rules, bubblewrap, SMALLEST_FOLDER);
    line.words(["--", "true"]);
    line.0
}

#[derive(Debug, Default)]
struct Line(Vec<OsString>);

impl Line {
    fn words<'a>(&mut self, words: impl IntoIterator<Item = &'a str>) -> &mut Self {
        self.0.extend(words.into_iter().map(OsString::from));
        self
    }

    fn path(&mut self, path: impl AsRef<OsStr>) -> &mut Self {
        self.0.push(path.as_ref().to_owned());
        self
    }

    /// No terminal to type into, no processes, shared memory or privileges of others.
    fn namespaces(&mut self, user_namespaces: UserNamespaces, network: Network) {
        self.words(["--die-with-parent", "--new-session"]);
        self.words(["--unshare-pid", "--unshare-ipc", "--unshare-uts"]);
        self.words(["--unshare-cgroup-try", "--cap-drop", "ALL"]);
        match user_namespaces {
            UserNamespaces::Shared => {
                for capability in CAPABILITIES {
                    self.words(["--cap-add", capability]);
                }
            }
            UserNamespaces::Forbidden => {
                self.words(["--unshare-user", "--disable-userns"]);
            }
            UserNamespaces::Possible => {
                self.words(["--unshare-user-try"]);
            }
        }
        if network == Network::Deny {
            self.words(["--unshare-net"]);
        }
    }

    /// An empty machine with devices and processes of its own, and what is given.
    fn file_system(&mut self, rules: &Rules, bubblewrap: &Bubblewrap, memory: u64) {
        let mut grants = grants(rules);
        // At each mount bubblewrap goes through all there are, and these are many.
        grants.sort_by_key(|(path, _)| path.starts_with(MANY_MOUNTS));
        let own = OwnFolder::of(bubblewrap, memory, &grants);
        let is_root = |(path, _): &&(PathBuf, Grant)| path == Path::new("/");
        for (path, _) in grants.iter().filter(is_root) {
            self.words(["--ro-bind"]).path(path).path(path);
        }
        self.words(["--dev", "/dev", "--proc", "/proc"]);
        self.own_folder(Path::new("/dev/shm"), &own);
        let mut made: Vec<&Path> = vec![Path::new("/"), Path::new("/dev"), Path::new("/proc")];
        for (path, grant) in grants.iter().filter(|it| !is_root(it)) {
            self.folders_around(path, &mut made);
            made.push(path);
            match grant {
                // What was there a moment ago may be gone.
                Grant::Read => self.words(["--ro-bind-try"]).path(path).path(path),
                Grant::Write => self.words(["--bind"]).path(path).path(path),
                Grant::Private => self.own_folder(path, &own),
                Grant::Link(target) => self.words(["--symlink"]).path(target).path(path),
            };
        }
    }

    /// Makes the folders that lead to a path, open to every user; bubblewrap would close them.
    fn folders_around<'a>(&mut self, path: &'a Path, made: &mut Vec<&'a Path>) {
        let around: Vec<&Path> = path.ancestors().skip(1).collect();
        for folder in around.into_iter().rev() {
            if !made.contains(&folder) {
                self.words(["--dir"]).path(folder);
                made.push(folder);
            }
        }
    }

    /// An empty folder in memory that the command may write.
    fn own_folder(&mut self, path: &Path, own: &OwnFolder) -> &mut Self {
        if own.is_of_root {
            self.words(["--perms", "1777"]);
        }
        if let Some(size) = own.size {
            self.words(["--size", &size.to_string()]);
        }
        self.words(["--tmpfs"]).path(path)
    }

    /// Closes what holds the machine together: kernel settings below `/proc`, and folders that
    /// exist only because something in them is given.
    fn seal(&mut self) {
        self.words(["--remount-ro", "/proc", "--remount-ro", "/"]);
    }
}

/// What each folder of the command in memory is like.
struct OwnFolder {
    /// Where bubblewrap runs as root, it is root's.
    is_of_root: bool,
    /// The bytes it holds, if that can be bounded.
    size: Option<u64>,
}

impl OwnFolder {
    /// No process has the memory of these folders, so nobody counts it: each gets an equal part.
    fn of(bubblewrap: &Bubblewrap, memory: u64, grants: &[(PathBuf, Grant)]) -> Self {
        let private = grants.iter().filter(|(_, grant)| *grant == Grant::Private);
        let number = 1 + private.count() as u64;
        let size = (memory / number).max(SMALLEST_FOLDER);
        Self {
            is_of_root: bubblewrap.user_namespaces == UserNamespaces::Shared,
            size: (bubblewrap.own_folders == OwnFolders::Bounded).then_some(size),
        }
    }
}

/// How the command ended, by bubblewrap's own report; nothing if it never began.
pub(super) fn exit_code(report: &[u8]) -> Option<i32> {
    let lines = report.split(|byte| *byte == b'\n');
    lines
        .filter_map(|line| serde_json::from_slice::<serde_json::Value>(line).ok())
        .find_map(|told| told.get("exit-code")?.as_i64())
        .and_then(|code| i32::try_from(code).ok())
}

#[cfg(test)]
mod tests {
    use super::super::policy::absolute;
    use super::*;

    #[test]
    fn folders_in_memory_share_the_limit() {
        let mut rules = Rules::default();
        for path in ["/tmp", "/run"] {
            rules.add(Path::new(path), Access::Private);
        }
        let sizes = |own_folders, memory| -> Vec<u64> {
            let bubblewrap = Bubblewrap {
                program: absolute(Path::new("/bwrap")).unwrap(),
                user_namespaces: UserNamespaces::Shared,
                own_folders,
            };
            let mut line = Line::default();
            line.file_system(&rules, &bubblewrap, memory);
            let words = line.0.windows(2).filter(|words| words[0] == "--size");
            let sizes = words.map(|words| words[1].to_str()?.parse().ok());
            sizes.map(Option::unwrap).collect()
        };
        assert_eq!(sizes(OwnFolders::Bounded, 96 << 20), [32 << 20; 3]);
        assert_eq!(sizes(OwnFolders::Bounded, 0), [SMALLEST_FOLDER; 3]);
        assert!(sizes(OwnFolders::Unbounded, 96 << 20).is_empty());
    }

    #[test]
    fn a_report_without_a_code_is_of_a_command_that_never_began() {
        let began = b"{ \"child-pid\": 7, \"cgroup-namespace\": 1 }\n";
        assert_eq!(exit_code(began), None);
        let ended = [&began[..], b"{ \"exit-code\": 3 }\n"].concat();
        assert_eq!(exit_code(&ended), Some(3));
        assert_eq!(exit_code(b""), None);
    }
}

//! Confinement by namespaces: what bubblewrap is told.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cleveragents_domain::process::Network;

use super::grants::{Grant, grants};
use super::policy::{Access, Bubblewrap, Policy, Rules, UserNamespaces};

/// Where our own program is in the sandbox: the last to run before the command.
pub(super) const PROGRAM: &str = "/run/agents";

/// Where a machine has most of its mounts.
const MANY_MOUNTS: &str = "/sys";

/// What the program needs of root to become the command's own user.
const CAPABILITIES: [&str; 3] = ["CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"];

/// Everything of the command line before the command. `program` is our own; `covered` are files
/// nobody may open; bubblewrap writes to `status` (a file descriptor it inherits) how the command
/// ended.
pub(super) fn arguments(
    policy: &Policy,
    bubblewrap: &Bubblewrap,
    program: &Path,
    covered: &[PathBuf],
    status: i32,
) -> Vec<OsString> {
    let mut line = Line::default();
    line.namespaces(bubblewrap.user_namespaces, policy.network);
    line.file_system(&policy.rules, bubblewrap.user_namespaces);
    for path in covered {
        line.words(["--ro-bind", "/dev/null"]).path(path);
    }
    line.words(["--ro-bind"]).path(program).path(PROGRAM);
    line.seal();
    // The tree may belong to another user, whom only our program becomes.
    line.words(["--chdir", "/"]);
    line.words(["--json-status-fd", &status.to_string(), "--"]);
    line.0
}

/// A command line that only tries whether all of it works here.
pub(super) fn trial(user_namespaces: UserNamespaces) -> Vec<OsString> {
    let mut line = Line::default();
    line.namespaces(user_namespaces, Network::Deny);
    let mut rules = Rules::default();
    rules.add(Path::new("/"), Access::Readable);
    line.file_system(&rules, user_namespaces);
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
    fn file_system(&mut self, rules: &Rules, user_namespaces: UserNamespaces) {
        let mut grants = grants(rules);
        // At each mount bubblewrap goes through all there are, and these are many.
        grants.sort_by_key(|(path, _)| path.starts_with(MANY_MOUNTS));
        let is_root = |(path, _): &&(PathBuf, Grant)| path == Path::new("/");
        for (path, _) in grants.iter().filter(is_root) {
            self.words(["--ro-bind"]).path(path).path(path);
        }
        self.words(["--dev", "/dev", "--proc", "/proc"]);
        self.own_folder(Path::new("/dev/shm"), user_namespaces);
        let mut made: Vec<&Path> = vec![Path::new("/"), Path::new("/dev"), Path::new("/proc")];
        for (path, grant) in grants.iter().filter(|it| !is_root(it)) {
            self.folders_around(path, &mut made);
            made.push(path);
            match grant {
                // What was there a moment ago may be gone.
                Grant::Read => self.words(["--ro-bind-try"]).path(path).path(path),
                Grant::Write => self.words(["--bind"]).path(path).path(path),
                Grant::Private => self.own_folder(path, user_namespaces),
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

    /// An empty folder that the command may write. Where bubblewrap runs as root, it is root's.
    fn own_folder(&mut self, path: &Path, user_namespaces: UserNamespaces) -> &mut Self {
        if user_namespaces == UserNamespaces::Shared {
            self.words(["--perms", "1777"]);
        }
        self.words(["--tmpfs"]).path(path)
    }

    /// Closes what holds the machine together: kernel settings below `/proc`, and folders that
    /// exist only because something in them is given.
    fn seal(&mut self) {
        self.words(["--remount-ro", "/proc", "--remount-ro", "/"]);
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
    use super::*;

    #[test]
    fn a_report_without_a_code_is_of_a_command_that_never_began() {
        let began = b"{ \"child-pid\": 7, \"cgroup-namespace\": 1 }\n";
        assert_eq!(exit_code(began), None);
        let ended = [&began[..], b"{ \"exit-code\": 3 }\n"].concat();
        assert_eq!(exit_code(&ended), Some(3));
        assert_eq!(exit_code(b""), None);
    }
}

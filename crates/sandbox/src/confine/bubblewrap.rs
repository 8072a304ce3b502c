//! Confinement by namespaces: what bubblewrap is told.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cleveragents_domain::process::Network;

use super::policy::{Access, Bubblewrap, Policy, Rules, UserNamespaces};

/// Everything of the command line before the command. `covered` are files nobody may open;
/// bubblewrap writes to `status` (a file descriptor it inherits) how the command ended.
pub(super) fn arguments(
    policy: &Policy,
    bubblewrap: &Bubblewrap,
    covered: &[PathBuf],
    status: i32,
) -> Vec<OsString> {
    let mut line = Line::default();
    line.namespaces(bubblewrap.user_namespaces, policy.network);
    line.file_system(&policy.rules, covered);
    line.words(["--chdir"]).path(policy.tree());
    line.words(["--json-status-fd", &status.to_string(), "--"]);
    line.0
}

/// A command line that only tries whether all of it works here.
pub(super) fn trial(user_namespaces: UserNamespaces) -> Vec<OsString> {
    let mut line = Line::default();
    line.namespaces(user_namespaces, Network::Deny);
    let mut rules = Rules::default();
    rules.add(Path::new("/tmp"), Access::Private);
    line.file_system(&rules, &[]);
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
        match user_namespaces {
            UserNamespaces::Forbidden => self.words(["--unshare-user", "--disable-userns"]),
            UserNamespaces::Possible => self.words(["--unshare-user-try"]),
        };
        self.words(["--unshare-pid", "--unshare-ipc", "--unshare-uts"]);
        self.words(["--unshare-cgroup-try", "--cap-drop", "ALL"]);
        if network == Network::Deny {
            self.words(["--unshare-net"]);
        }
    }

    /// The whole machine read-only, its devices and processes replaced, then each rule; a deeper
    /// one is laid over the one around it.
    fn file_system(&mut self, rules: &Rules, covered: &[PathBuf]) {
        self.words(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]);
        let mut emptied = Vec::new();
        for (path, access) in rules.iter() {
            let around = path.parent().map(|around| rules.access_to(around));
            if is_covered(access, around) {
                continue;
            }
            match access {
                Access::Readable => self.words(["--ro-bind"]).path(path).path(path),
                Access::Writable => self.words(["--bind"]).path(path).path(path),
                Access::Private => self.words(["--tmpfs"]).path(path),
                Access::Hidden if path.is_dir() => {
                    emptied.push(path);
                    self.words(["--tmpfs"]).path(path)
                }
                Access::Hidden => self.words(["--ro-bind", "/dev/null"]).path(path),
            };
        }
        for path in covered {
            self.words(["--ro-bind", "/dev/null"]).path(path);
        }
        for path in emptied {
            self.words(["--remount-ro"]).path(path);
        }
    }
}

/// Whether what lies around a path already does what its own rule would.
fn is_covered(access: Access, around: Option<Access>) -> bool {
    let closed = |access| access < Access::Readable;
    match around {
        None => access == Access::Readable,
        Some(around) if access == Access::Hidden => closed(around),
        Some(around) => access == Access::Readable && around == Access::Readable,
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

//! Confinement by namespaces: builds the command line of bubblewrap.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cleveragents_domain::process::Network;

use super::grants::{Grant, grants};
use super::policy::{AccessRules, Bubblewrap, OwnFolders, PathAccess, Policy, UserNamespaces};

/// The path of our own program in the sandbox. It runs last before the command.
pub(super) const PROGRAM: &str = "/run/agents";

/// The folder that has most mounts of a machine.
const MANY_MOUNTS: &str = "/sys";

/// Capabilities that our program needs to become the command's own user.
const CAPABILITIES: [&str; 3] = ["CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"];

/// Minimum size in bytes of a folder in memory.
const SMALLEST_FOLDER: u64 = 1 << 20;

/// Inputs of the command line besides the policy.
pub(super) struct BubblewrapContext<'a> {
    pub(super) program: &'a Path,
    /// Files that the command must not open.
    pub(super) covered: &'a [PathBuf],
    /// Size limit in bytes for all in-memory folders of the command together.
    pub(super) memory: u64,
    /// An inherited file descriptor to which bubblewrap writes the exit status of the command.
    pub(super) status: i32,
}

/// Returns all arguments before the command.
pub(super) fn arguments(
    policy: &Policy,
    bubblewrap: &Bubblewrap,
    sandbox: &BubblewrapContext<'_>,
) -> Vec<OsString> {
    let mut line = BubblewrapArguments::default();
    line.add_namespaces(bubblewrap.user_namespaces, policy.network);
    line.add_file_system(&policy.rules, bubblewrap, sandbox.memory);
    for path in sandbox.covered {
        line.add(["--ro-bind", "/dev/null"]).add_path(path);
    }
    line.add(["--ro-bind"])
        .add_path(sandbox.program)
        .add_path(PROGRAM);
    line.seal();
    // The tree may belong to another user; only our program becomes that user and can enter it.
    line.add(["--chdir", "/"]);
    line.add(["--json-status-fd", &sandbox.status.to_string(), "--"]);
    line.0
}

/// Returns a command line that tests whether all features work on this machine.
pub(super) fn trial_arguments(bubblewrap: &Bubblewrap) -> Vec<OsString> {
    let mut line = BubblewrapArguments::default();
    line.add_namespaces(bubblewrap.user_namespaces, Network::Deny);
    let mut rules = AccessRules::default();
    rules.add(Path::new("/"), PathAccess::Readable);
    line.add_file_system(&rules, bubblewrap, SMALLEST_FOLDER);
    line.add(["--", "true"]);
    line.0
}

#[derive(Debug, Default)]
struct BubblewrapArguments(Vec<OsString>);

impl BubblewrapArguments {
    fn add<'a>(&mut self, words: impl IntoIterator<Item = &'a str>) -> &mut Self {
        self.0.extend(words.into_iter().map(OsString::from));
        self
    }

    fn add_path(&mut self, path: impl AsRef<OsStr>) -> &mut Self {
        self.0.push(path.as_ref().to_owned());
        self
    }

    /// Isolates the terminal, processes, shared memory and privileges.
    fn add_namespaces(&mut self, user_namespaces: UserNamespaces, network: Network) {
        // In a session of its own the command has no terminal into which it could push input.
        self.add(["--die-with-parent", "--new-session"]);
        self.add(["--unshare-pid", "--unshare-ipc", "--unshare-uts"]);
        self.add(["--unshare-cgroup-try", "--cap-drop", "ALL"]);
        match user_namespaces {
            UserNamespaces::Shared => {
                for capability in CAPABILITIES {
                    self.add(["--cap-add", capability]);
                }
            }
            UserNamespaces::Forbidden => {
                self.add(["--unshare-user", "--disable-userns"]);
            }
            UserNamespaces::Possible => {
                self.add(["--unshare-user-try"]);
            }
        }
        if network == Network::Deny {
            self.add(["--unshare-net"]);
        }
    }

    /// Adds an empty root with its own devices and processes, and the granted paths.
    fn add_file_system(&mut self, rules: &AccessRules, bubblewrap: &Bubblewrap, memory: u64) {
        let mut grants = grants(rules);
        // Bubblewrap scans all mounts for each new mount, so the folder with many mounts comes last.
        grants.sort_by_key(|(path, _)| path.starts_with(MANY_MOUNTS));
        let own = OwnFolder::new(bubblewrap, memory, &grants);
        // The root comes first, because it would cover every earlier mount.
        let is_root = |(path, _): &&(PathBuf, Grant)| path == Path::new("/");
        for (path, _) in grants.iter().filter(is_root) {
            self.add(["--ro-bind"]).add_path(path).add_path(path);
        }
        self.add(["--dev", "/dev", "--proc", "/proc"]);
        self.add_own_folder(Path::new("/dev/shm"), &own);
        let mut made: Vec<&Path> = vec![Path::new("/"), Path::new("/dev"), Path::new("/proc")];
        for (path, grant) in grants.iter().filter(|it| !is_root(it)) {
            self.add_parents(path, &mut made);
            made.push(path);
            match grant {
                // `-try` because the path may have been removed since it was listed.
                Grant::Read => self.add(["--ro-bind-try"]).add_path(path).add_path(path),
                Grant::Write => self.add(["--bind"]).add_path(path).add_path(path),
                Grant::Private => self.add_own_folder(path, &own),
                Grant::Link(target) => self.add(["--symlink"]).add_path(target).add_path(path),
            };
        }
    }

    /// Creates the parents of a path with access for every user; bubblewrap would make them private.
    fn add_parents<'a>(&mut self, path: &'a Path, made: &mut Vec<&'a Path>) {
        let around: Vec<&Path> = path.ancestors().skip(1).collect();
        for folder in around.into_iter().rev() {
            if !made.contains(&folder) {
                self.add(["--dir"]).add_path(folder);
                made.push(folder);
            }
        }
    }

    /// Adds an empty in-memory folder that the command may write.
    fn add_own_folder(&mut self, path: &Path, own: &OwnFolder) -> &mut Self {
        if own.is_owned_by_root {
            self.add(["--perms", "1777"]);
        }
        if let Some(size) = own.size {
            self.add(["--size", &size.to_string()]);
        }
        self.add(["--tmpfs"]).add_path(path)
    }

    /// Makes read-only the kernel settings below `/proc`, and folders that exist only as parents of
    /// granted paths.
    fn seal(&mut self) {
        self.add(["--remount-ro", "/proc", "--remount-ro", "/"]);
    }
}

/// Properties of each in-memory folder of the command.
struct OwnFolder {
    /// True if bubblewrap runs as root, which then owns the folder.
    is_owned_by_root: bool,
    /// Size limit in bytes, if this bubblewrap supports one.
    size: Option<u64>,
}

impl OwnFolder {
    /// The memory of these folders belongs to no process and is not counted, so each gets an equal
    /// share.
    fn new(bubblewrap: &Bubblewrap, memory: u64, grants: &[(PathBuf, Grant)]) -> Self {
        let private = grants.iter().filter(|(_, grant)| *grant == Grant::Private);
        let number = 1 + private.count() as u64;
        let size = (memory / number).max(SMALLEST_FOLDER);
        Self {
            is_owned_by_root: bubblewrap.user_namespaces == UserNamespaces::Shared,
            size: (bubblewrap.own_folders == OwnFolders::Bounded).then_some(size),
        }
    }
}

/// Returns the exit code from bubblewrap's report, or `None` if the command never started.
pub(super) fn exit_code(report: &[u8]) -> Option<i32> {
    let lines = report.split(|byte| *byte == b'\n');
    lines
        .filter_map(|line| serde_json::from_slice::<serde_json::Value>(line).ok())
        .find_map(|message| message.get("exit-code")?.as_i64())
        .and_then(|code| i32::try_from(code).ok())
}

#[cfg(test)]
mod tests {
    use super::super::policy::to_absolute_path;
    use super::*;

    #[test]
    fn folders_in_memory_share_the_limit() {
        let mut rules = AccessRules::default();
        for path in ["/tmp", "/run"] {
            rules.add(Path::new(path), PathAccess::Private);
        }
        let sizes = |own_folders, memory| -> Vec<u64> {
            let bubblewrap = Bubblewrap {
                program: to_absolute_path(Path::new("/bwrap")).unwrap(),
                user_namespaces: UserNamespaces::Shared,
                own_folders,
            };
            let mut line = BubblewrapArguments::default();
            line.add_file_system(&rules, &bubblewrap, memory);
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

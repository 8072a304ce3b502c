//! Runs every escape attempt at both levels: a denied one changes nothing outside, and one that a
//! level cannot deny is listed as open.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use cleveragents_domain::process::Confinement;

use crate::escape_attempts::{
    AttemptOutcome, CONNECTIONS, EscapeAttempt, PRIVILEGES, SECRETS, STORES, UnconfinedOutcome,
    WRITES,
};
use crate::other_user::{OtherUser, is_another_user};
use crate::world::{ConfinementWorld, text, visible_folder};

/// Sockets of other processes.
struct HostServices {
    tcp: TcpListener,
    udp: u16,
    path: PathBuf,
    _unix: UnixListener,
    name: String,
    _abstract: UnixListener,
    /// Bound by its bare name, from the folder it is in.
    relative: PathBuf,
    _relative: RelativeService,
    /// In a folder that the settings make readable.
    shown: PathBuf,
    _shown: RelativeService,
    /// In the same folder, bound by a process of another network namespace.
    other_namespace: PathBuf,
    _other_namespace: RelativeService,
}

impl HostServices {
    fn start(world: &ConfinementWorld) -> Self {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = udp.local_addr().unwrap().port();
        // Answers as long as this process lives.
        thread::spawn(move || {
            let mut word = [0; 8];
            while let Ok((_, from)) = udp.recv_from(&mut word) {
                let _ = udp.send_to(b"y", from);
            }
        });
        let path = world.path("outside/socket");
        let name = format!("agents-confinement-{}", world.root().display());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        Self {
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            udp: port,
            _unix: UnixListener::bind(&path).unwrap(),
            path,
            _abstract: UnixListener::bind_addr(&address).unwrap(),
            name,
            relative: world.path("outside/relative"),
            _relative: RelativeService::start(&world.path("outside"), "relative"),
            shown: world.path("shown/socket"),
            _shown: RelativeService::start(&world.path("shown"), "socket"),
            other_namespace: world.path("shown/elsewhere"),
            _other_namespace: RelativeService::start_in_other_namespace(
                &world.path("shown"),
                "elsewhere",
            ),
        }
    }

    fn fill_in(&self, script: &str) -> String {
        let network = fs::read_link("/proc/self/ns/net").unwrap();
        script
            .replace("TCP", &self.tcp.local_addr().unwrap().port().to_string())
            .replace("UDP", &self.udp.to_string())
            .replace("UNIX\"", &format!("{}\"", self.path.display()))
            .replace("ABSTRACT", &self.name)
            .replace("NETNS", network.to_str().unwrap())
            .replace("RELATIVE", self.relative.to_str().unwrap())
            .replace("SHOWN", self.shown.to_str().unwrap())
            .replace("ELSEWHERE", self.other_namespace.to_str().unwrap())
            .replace("OWNER_PID", &std::process::id().to_string())
    }
}

/// A service that bound its socket by a name without a folder; killed when this value is dropped.
struct RelativeService(Child);

impl RelativeService {
    fn start(folder: &Path, name: &str) -> Self {
        Self::start_with(&["python3"], folder, name)
    }

    /// Like [`start`](Self::start), in its own network namespace.
    fn start_in_other_namespace(folder: &Path, name: &str) -> Self {
        let unshare = if is_root() {
            &["unshare", "--net", "python3"][..]
        } else {
            &["unshare", "--map-root-user", "--net", "python3"]
        };
        let service = Self::start_with(unshare, folder, name);
        let network = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).unwrap();
        assert_ne!(network(&service.0.id().to_string()), network("self"));
        service
    }

    #[expect(clippy::disallowed_methods, reason = "tests play another process")]
    fn start_with(python: &[&str], folder: &Path, name: &str) -> Self {
        // Open to every user, so that file permissions are not what keeps a command out.
        let script = "import os, socket, sys
service = socket.socket(socket.AF_UNIX)
service.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o777)
service.listen()
print(flush=True)
sys.stdin.read()";
        let mut service = Command::new(python[0])
            .args(&python[1..])
            .args(["-c", script, name])
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0];
        let stdout = service.stdout.as_mut().unwrap();
        stdout.read_exact(&mut ready).unwrap();
        Self(service)
    }
}

impl Drop for RelativeService {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns a unique name for shared folders.
fn unique_name(world: &ConfinementWorld) -> String {
    let name = world.root().file_name().unwrap().to_str().unwrap();
    format!("escaped-{}", name.trim_start_matches('.'))
}

fn variable_script(world: &ConfinementWorld) -> String {
    let scratch = world.sandbox.scratch().unwrap();
    let home = world.path("home");
    let named = [
        ("OUT", world.path("outside")),
        ("USER_HOME", home.clone()),
        ("REPO", world.path("user")),
        ("DATA", world.bootstrap.directory().to_owned()),
        ("GIT", scratch.with_file_name("git")),
        ("OTHER", world.other_tree()),
    ];
    let mut text = String::from("set +e; ");
    for (name, value) in named {
        text += &format!("export {name}='{}'; ", value.display());
    }
    if is_root() {
        text += "AS_ROOT=1; ";
    }
    let owner = std::process::id();
    text + &format!(
        "OWNER={owner}; export P={owner}; NAME={}; ",
        unique_name(world)
    )
}

/// Returns whether an attempt left something outside.
fn escaped_outside(world: &ConfinementWorld) -> bool {
    let name = unique_name(world);
    let places = ["/tmp", "/var/tmp", "/dev/shm", "/etc", "/usr", "/var/lib"];
    let mut found = places.map(|place| Path::new(place).join(&name)).to_vec();
    found.retain(|path| path.exists());
    found.iter().for_each(|path| fs::remove_file(path).unwrap());
    !found.is_empty()
}

/// Undoes what a level cannot deny.
fn restore_permissions(world: &ConfinementWorld) {
    let file = world.path("outside/file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
}

/// Removes the leftovers of an attempt, so that they do not affect the next one.
fn clear_folder(tree: &Path) {
    for entry in fs::read_dir(tree).unwrap() {
        let path = entry.unwrap().path();
        let removed = if path.symlink_metadata().unwrap().is_dir() {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
        removed.unwrap();
    }
}

/// Runs one attempt; returns its outcome and the command's output.
fn attempt(
    world: &ConfinementWorld,
    services: &HostServices,
    row: &EscapeAttempt,
) -> (AttemptOutcome, String) {
    let script = format!(
        "{} {}",
        variable_script(world),
        services.fill_in(row.script)
    );
    let finished = world.run(&world.command(&script));
    let said = text(&finished.stdout);
    let escaped = said.contains("ESCAPED") | escaped_outside(world);
    let verdict = if escaped {
        AttemptOutcome::Open
    } else {
        AttemptOutcome::Denied
    };
    (verdict, said + &text(&finished.stderr))
}

fn assert_attempts(level: Confinement, rows: &[EscapeAttempt]) {
    assert_attempts_in(&visible_folder(), level, rows.iter());
}

fn assert_attempts_in<'a>(
    place: &Path,
    level: Confinement,
    rows: impl Iterator<Item = &'a EscapeAttempt>,
) {
    let world = ConfinementWorld::new_in(place, level, &["sandbox.readable-paths=ROOT/shown"]);
    let services = HostServices::start(&world);
    restore_permissions(&world);
    let before = world.files_outside_the_tree();
    let mut wrong = Vec::new();
    for row in rows {
        let expected = match level {
            Confinement::Namespaces => row.namespaces,
            _ if is_root() => row.landlock_as_root,
            _ => row.landlock,
        };
        let (verdict, said) = attempt(&world, &services, row);
        restore_permissions(&world);
        if verdict != expected {
            wrong.push(format!("{}: {verdict:?}\n  {said}", row.name));
        }
        let after = world.files_outside_the_tree();
        if after != before {
            panic!(
                "{level}: {}: {:?}",
                row.name,
                changed_paths(&before, &after)
            );
        }
        clear_folder(world.tree());
    }
    assert!(wrong.is_empty(), "{level}:\n{}", wrong.join("\n"));
}

fn changed_paths(before: &OutsideFiles, after: &OutsideFiles) -> Vec<PathBuf> {
    let keys = before.keys().chain(after.keys());
    let changed = keys.filter(|key| before.get(*key) != after.get(*key));
    changed.cloned().collect()
}

type OutsideFiles = BTreeMap<PathBuf, String>;

fn set_up_unconfined() -> (ConfinementWorld, HostServices, OutsideFiles) {
    let world =
        ConfinementWorld::with_settings(Confinement::None, &["sandbox.readable-paths=ROOT/shown"]);
    let services = HostServices::start(&world);
    let before = world.files_outside_the_tree();
    (world, services, before)
}

/// An attempt that fails even without confinement would prove nothing by being denied.
#[test]
fn the_attempts_succeed_without_confinement() {
    let mut wrong = Vec::new();
    let mut works = 0;
    let (mut world, mut services, mut before) = set_up_unconfined();
    for row in [WRITES, STORES, SECRETS, PRIVILEGES, CONNECTIONS]
        .into_iter()
        .flatten()
    {
        let expected = match row.unconfined {
            UnconfinedOutcome::WorksUnlessRoot if is_root() => AttemptOutcome::Denied,
            UnconfinedOutcome::Works | UnconfinedOutcome::WorksUnlessRoot => AttemptOutcome::Open,
            UnconfinedOutcome::Denied => AttemptOutcome::Denied,
            UnconfinedOutcome::NotTried => continue,
        };
        let (verdict, said) = attempt(&world, &services, row);
        works += usize::from(verdict == AttemptOutcome::Open);
        if world.files_outside_the_tree() != before {
            (world, services, before) = set_up_unconfined();
        }
        clear_folder(world.tree());
        if verdict != expected {
            wrong.push(format!("{}: {verdict:?}\n  {said}", row.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(works >= 30, "{works}");
}

macro_rules! at_level {
    ($name:ident, $level:expr) => {
        mod $name {
            use super::*;

            #[test]
            fn nothing_outside_is_written() {
                assert_attempts($level, WRITES);
            }

            #[test]
            fn our_own_data_is_inaccessible() {
                assert_attempts($level, STORES);
            }

            #[test]
            fn secrets_are_not_read() {
                assert_attempts($level, SECRETS);
            }

            #[test]
            fn processes_privileges_and_devices_are_inaccessible() {
                assert_attempts($level, PRIVILEGES);
            }

            #[test]
            fn other_processes_are_unreachable() {
                assert_attempts($level, CONNECTIONS);
            }
        }
    };
}

at_level!(namespaces, Confinement::Namespaces);
at_level!(landlock, Confinement::Landlock);

/// All processes of an unprivileged user have the same uid, so only confinement can deny signals
/// between them.
#[test]
fn signals_to_other_processes_are_denied() {
    if is_another_user() {
        for level in [Confinement::Namespaces, Confinement::Landlock] {
            let signals = PRIVILEGES
                .iter()
                .filter(|it| it.name.starts_with("a signal"));
            assert_attempts_in(Path::new("/tmp"), level, signals);
        }
        return;
    }
    if let Some(user) = OtherUser::new() {
        user.run("escapes::signals_to_other_processes_are_denied");
    }
}

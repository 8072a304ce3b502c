//! Every row of the list of escapes, at both levels: what is denied changes nothing outside, and
//! what a level cannot deny is said to be open.

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

use crate::other_user::{OtherUser, is_another_user};
use crate::rows::{POWERS, Row, SECRETS, STORES, TALKS, Unconfined, Verdict, WRITES};
use crate::world::{World, text, visible_place};

/// Sockets of somebody else.
struct Services {
    tcp: TcpListener,
    udp: u16,
    path: PathBuf,
    _unix: UnixListener,
    name: String,
    _abstract: UnixListener,
    /// Bound by its name alone, from the folder it is in.
    relative: PathBuf,
    _relative: RelativeService,
    /// In a folder that the settings make readable.
    shown: PathBuf,
    _shown: RelativeService,
    /// In the same folder, bound by a process of another network namespace.
    elsewhere: PathBuf,
    _elsewhere: RelativeService,
}

impl Services {
    fn start(world: &World) -> Self {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = udp.local_addr().unwrap().port();
        // Answers for as long as this process lives.
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
            elsewhere: world.path("shown/elsewhere"),
            _elsewhere: RelativeService::start_elsewhere(&world.path("shown"), "elsewhere"),
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
            .replace("ELSEWHERE", self.elsewhere.to_str().unwrap())
            .replace("OWNER_PID", &std::process::id().to_string())
    }
}

/// A service that bound its socket by a name without a folder, and lives as long as this.
struct RelativeService(Child);

impl RelativeService {
    fn start(folder: &Path, name: &str) -> Self {
        Self::start_by(&["python3"], folder, name)
    }

    /// The same in a network namespace of its own.
    fn start_elsewhere(folder: &Path, name: &str) -> Self {
        let unshare = match is_root() {
            true => &["unshare", "--net", "python3"][..],
            false => &["unshare", "--map-root-user", "--net", "python3"],
        };
        let service = Self::start_by(unshare, folder, name);
        let network = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).unwrap();
        assert_ne!(network(&service.0.id().to_string()), network("self"));
        service
    }

    #[expect(clippy::disallowed_methods, reason = "tests play another process")]
    fn start_by(python: &[&str], folder: &Path, name: &str) -> Self {
        // Open to every user, so that the user of a command is not all that keeps it out.
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

/// A name for places that all share.
fn unique_name(world: &World) -> String {
    let name = world.root().file_name().unwrap().to_str().unwrap();
    format!("escaped-{}", name.trim_start_matches('.'))
}

fn variables(world: &World) -> String {
    let scratch = world.sandbox.scratch().unwrap();
    let home = world.path("home");
    let named = [
        ("OUT", world.path("outside")),
        ("USER_HOME", home.clone()),
        ("REPO", world.path("user")),
        ("DATA", world.wiring.directory().to_owned()),
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

/// Whether something arrived where only the outside can see it.
fn arrived(world: &World) -> bool {
    let name = unique_name(world);
    let places = ["/tmp", "/var/tmp", "/dev/shm", "/etc", "/usr", "/var/lib"];
    let mut found = places.map(|place| Path::new(place).join(&name)).to_vec();
    found.retain(|path| path.exists());
    found.iter().for_each(|path| fs::remove_file(path).unwrap());
    !found.is_empty()
}

/// Puts right what a level cannot deny.
fn mend(world: &World) {
    let file = world.path("outside/file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
}

/// Removes what an attempt left, so that the next one does not stumble over it.
fn empty(tree: &Path) {
    for entry in fs::read_dir(tree).unwrap() {
        let path = entry.unwrap().path();
        let removed = match path.symlink_metadata().unwrap().is_dir() {
            true => fs::remove_dir_all(&path),
            false => fs::remove_file(&path),
        };
        removed.unwrap();
    }
}

/// What comes of one attempt, and what the command said.
fn attempt(world: &World, services: &Services, row: &Row) -> (Verdict, String) {
    let script = format!("{} {}", variables(world), services.fill_in(row.script));
    let finished = world.run(&world.command(&script));
    let said = text(&finished.stdout);
    let escaped = said.contains("ESCAPED") | arrived(world);
    let verdict = match escaped {
        true => Verdict::Open,
        false => Verdict::Denied,
    };
    (verdict, said + &text(&finished.stderr))
}

fn check(level: Confinement, rows: &[Row]) {
    check_in(&visible_place(), level, rows.iter());
}

fn check_in<'a>(place: &Path, level: Confinement, rows: impl Iterator<Item = &'a Row>) {
    let world = World::at(place, level, &["sandbox.readable-paths=ROOT/shown"]);
    let services = Services::start(&world);
    mend(&world);
    let before = world.everything_else();
    let mut wrong = Vec::new();
    for row in rows {
        let expected = match level {
            Confinement::Namespaces => row.namespaces,
            _ if is_root() => row.landlock_as_root,
            _ => row.landlock,
        };
        let (verdict, said) = attempt(&world, &services, row);
        mend(&world);
        if verdict != expected {
            wrong.push(format!("{}: {verdict:?}\n  {said}", row.name));
        }
        let after = world.everything_else();
        if after != before {
            panic!("{level}: {}: {:?}", row.name, difference(&before, &after));
        }
        empty(world.tree());
    }
    assert!(wrong.is_empty(), "{level}:\n{}", wrong.join("\n"));
}

fn difference(before: &Snapshot, after: &Snapshot) -> Vec<PathBuf> {
    let keys = before.keys().chain(after.keys());
    let changed = keys.filter(|key| before.get(*key) != after.get(*key));
    changed.cloned().collect()
}

type Snapshot = BTreeMap<PathBuf, String>;

fn unconfined() -> (World, Services, Snapshot) {
    let world = World::with_settings(Confinement::None, &["sandbox.readable-paths=ROOT/shown"]);
    let services = Services::start(&world);
    let before = world.everything_else();
    (world, services, before)
}

/// What a script cannot do anyway would prove nothing by being denied.
#[test]
fn the_attempts_are_real_where_nothing_confines() {
    let mut wrong = Vec::new();
    let mut works = 0;
    let (mut world, mut services, mut before) = unconfined();
    for row in [WRITES, STORES, SECRETS, POWERS, TALKS]
        .into_iter()
        .flatten()
    {
        let expected = match row.unconfined {
            Unconfined::WorksUnlessRoot if is_root() => Verdict::Denied,
            Unconfined::Works | Unconfined::WorksUnlessRoot => Verdict::Open,
            Unconfined::Denied => Verdict::Denied,
            Unconfined::NotTried => continue,
        };
        let (verdict, said) = attempt(&world, &services, row);
        works += usize::from(verdict == Verdict::Open);
        if world.everything_else() != before {
            (world, services, before) = unconfined();
        }
        empty(world.tree());
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
                check($level, WRITES);
            }

            #[test]
            fn our_own_data_is_out_of_reach() {
                check($level, STORES);
            }

            #[test]
            fn secrets_are_not_read() {
                check($level, SECRETS);
            }

            #[test]
            fn processes_privileges_and_devices_are_out_of_reach() {
                check($level, POWERS);
            }

            #[test]
            fn others_are_not_talked_to() {
                check($level, TALKS);
            }
        }
    };
}

at_level!(namespaces, Confinement::Namespaces);
at_level!(landlock, Confinement::Landlock);

/// The processes of a plain user run under one number: only confinement keeps signals from them.
#[test]
fn a_plain_users_processes_get_no_signals() {
    if is_another_user() {
        for level in [Confinement::Namespaces, Confinement::Landlock] {
            let signals = POWERS.iter().filter(|it| it.name.starts_with("a signal"));
            check_in(Path::new("/tmp"), level, signals);
        }
        return;
    }
    if let Some(user) = OtherUser::new() {
        user.run("escapes::a_plain_users_processes_get_no_signals");
    }
}

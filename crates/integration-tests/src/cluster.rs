//! A PostgreSQL cluster for a single test, for tests that stop and kill the server.
//!
//! A guard process waits for the end of a pipe that only this process holds, then stops the cluster
//! and removes its folder. Nothing is left behind, however the test ends.

#![expect(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "tests set up here; a set-up that fails must fail the test"
)]

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::wait;

const SERVER_DIRECTORY: &str = "/usr/lib/postgresql";
const GUARD: &str = r#"trap '' INT TERM HUP QUIT
folder=$1; shift
cat >/dev/null
"$@" stop --silent --mode=immediate --pgdata="$folder/data" >/dev/null 2>&1
rm -rf -- "$folder""#;

/// A running server; dropping it stops it and removes its folder.
#[derive(Debug)]
pub struct TestCluster {
    folder: PathBuf,
    programs: PathBuf,
    prefix: Vec<String>,
    port: u16,
    guard: Child,
}

impl TestCluster {
    /// Creates and starts a cluster on a free port.
    ///
    /// # Panics
    ///
    /// If PostgreSQL is not installed: the test must not be skipped.
    pub fn start() -> Self {
        let programs = newest_server();
        let folder = tempfile::Builder::new()
            .prefix("agents-cluster-")
            .tempdir_in("/tmp")
            .expect("a folder")
            .keep();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).expect("a private folder");
        let prefix = chown_to_postgres(&folder);
        let guard = Command::new("sh")
            .args(["-c", GUARD, "sh"])
            .arg(&folder)
            .args(&prefix)
            .arg(programs.join("pg_ctl"))
            .current_dir("/")
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("a guard");
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|probe| probe.local_addr())
            .expect("a free port")
            .port();
        let cluster = Self {
            folder,
            programs,
            prefix,
            port,
            guard,
        };
        let data = cluster.data().display().to_string();
        cluster.run(
            "initdb",
            &[
                "--username=agents",
                "--auth=trust",
                "--locale=C",
                "-D",
                &data,
            ],
        );
        cluster.start_server();
        cluster
    }

    pub fn url(&self) -> String {
        format!("postgres://agents@127.0.0.1:{}/postgres", self.port)
    }

    /// Starts the server; returns when it accepts connections.
    pub fn start_server(&self) {
        let options = format!(
            "-p {} -k {} -c listen_addresses=127.0.0.1",
            self.port,
            self.folder.display()
        );
        let log = self.folder.join("log").display().to_string();
        self.pg_ctl(&["start", "--wait", "-o", &options, "-l", &log]);
    }

    /// Stops the server: `fast` shuts down cleanly, `immediate` does not.
    pub fn stop_server(&self, mode: &str) {
        self.pg_ctl(&["stop", "--wait", "-m", mode]);
    }

    /// Sends `kill -9` to the server and all its processes at once.
    pub fn kill(&self) {
        let file = self.data().join("postmaster.pid");
        let text = fs::read_to_string(&file).expect("a running server");
        let server: i32 = text
            .lines()
            .next()
            .and_then(|l| l.parse().ok())
            .expect("its pid");
        signal(server, Signal::STOP);
        let mut all = children(server);
        all.push(server);
        for pid in &all {
            signal(*pid, Signal::KILL);
        }
        wait::until("the server is dead", || {
            all.iter().all(|pid| !is_alive(*pid))
        });
        // A zombie process keeps its pid, which the lock files name.
        let socket_lock = format!(".s.PGSQL.{}.lock", self.port);
        for file in [file, self.folder.join(socket_lock)] {
            fs::remove_file(&file).expect("the dead server's lock file");
        }
    }

    fn pg_ctl(&self, words: &[&str]) {
        let data = self.data().display().to_string();
        let mut all = words.to_vec();
        all.extend(["--silent", "-D", &data]);
        self.run("pg_ctl", &all);
    }

    fn run(&self, program: &str, words: &[&str]) {
        let path = self.programs.join(program);
        let mut line: Vec<&str> = self.prefix.iter().map(String::as_str).collect();
        let path = path.display().to_string();
        line.push(&path);
        line.extend(words);
        // The server inherits these handles, so they must not be pipes that a reader waits on.
        let status = Command::new(line[0])
            .args(&line[1..])
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .expect("PostgreSQL's programs start");
        assert!(status.success(), "{program} {words:?}: {status}");
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

fn newest_server() -> PathBuf {
    let versions = fs::read_dir(SERVER_DIRECTORY).map(|entries| {
        let number = |name: &str| name.parse::<u32>().ok();
        entries
            .filter_map(|entry| number(entry.ok()?.file_name().to_str()?))
            .max()
    });
    match versions {
        Ok(Some(newest)) => Path::new(SERVER_DIRECTORY)
            .join(newest.to_string())
            .join("bin"),
        _ => panic!("this test needs PostgreSQL's server: run `cargo xtask test`"),
    }
}

/// PostgreSQL refuses to run as root: then the folder is given to another user, who runs its
/// programs.
fn chown_to_postgres(folder: &Path) -> Vec<String> {
    if fs::metadata("/proc/self").expect("our own facts").uid() != 0 {
        return Vec::new();
    }
    let accounts = fs::read_to_string("/etc/passwd").expect("the accounts");
    let ids = |name: &str| {
        let line = accounts
            .lines()
            .find(|line| line.starts_with(&format!("{name}:")))?;
        let mut fields = line.split(':').skip(2);
        let user: u32 = fields.next()?.parse().ok()?;
        Some((user, fields.next()?.parse::<u32>().ok()?))
    };
    let (user, group) = ids("postgres")
        .or_else(|| ids("nobody"))
        .expect("an account");
    chown(folder, Some(user), Some(group)).expect("the folder is lent");
    let words = [
        "setpriv",
        &format!("--reuid={user}"),
        &format!("--regid={group}"),
    ];
    let mut prefix: Vec<String> = words.map(str::to_owned).to_vec();
    prefix.extend(["--clear-groups".to_owned(), "--".to_owned()]);
    prefix
}

fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // A process that has just ended needs no signal.
        let _ = kill_process(pid, signal);
    }
}

/// The state and parent of a process.
fn process_state(pid: i32) -> Option<(char, i32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?.chars().next()?;
    Some((state, fields.next()?.parse().ok()?))
}

fn is_alive(pid: i32) -> bool {
    process_state(pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

fn children(parent: i32) -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("the processes");
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| process_state(*pid).is_some_and(|(_, found)| found == parent))
        .collect()
}

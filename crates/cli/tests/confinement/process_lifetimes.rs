//! No process of a command outlives its owner, its timeout or the command itself.
//!
//! Detected with a FIFO in the tree: every process of the command holds it open for writing, so a
//! reader sees its end exactly when the last of them is dead.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use cleveragents_domain::process::{Confinement, ProcessIdentity};
use cleveragents_ports::processes::{CommandExit, ConfinedCommand, ProcessResult};
use cleveragents_ports::stop::{StopReason, StopSignal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::world::{ConfinementWorld, LEVELS, owner_request, text, write};

/// Starts a background writer that has forked twice and has its own session. It appends to `grown`
/// as fast as it can and ignores every signal it may. After a while it exits anyway, so that a
/// failing test does not fill the disk.
const DAEMON: &str = "exec 9>fifo; \
    (setsid timeout -s KILL 100 \
    sh -c 'trap \"\" TERM HUP INT; echo ready >&9; while :; do echo x >> grown; done' \
    </dev/null >/dev/null 2>&1 &) ; ";

/// Longer than a busy machine needs, and shorter than the daemon lives.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Returns a script that starts the daemon, then runs `then`.
fn daemon_script(then: &str) -> String {
    format!("{DAEMON}{then}")
}

/// The reading end of the FIFO in the tree.
struct Fifo(BufReader<File>);

impl Fifo {
    fn create(world: &ConfinementWorld) -> PathBuf {
        let path = world.tree().join("fifo");
        let made = world.run_script("mkfifo fifo");
        assert_eq!(made, "");
        path
    }

    /// Waits until the daemon is running.
    fn open(path: &Path) -> Self {
        let mut fifo = BufReader::new(File::open(path).unwrap());
        let mut line = String::new();
        fifo.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self(fifo)
    }

    /// Waits until no process holds it open.
    #[track_caller]
    fn wait_until_closed(mut self) {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let read = self.0.read_to_end(&mut Vec::new());
            let _ = sender.send(read.is_ok());
        });
        let silent = receiver.recv_timeout(TIMEOUT);
        assert_eq!(silent, Ok(true), "somebody is still alive");
    }
}

/// Waits until the daemon has written something.
fn wait_for_daemon_output(world: &ConfinementWorld) {
    let path = world.tree().join("grown");
    while fs::metadata(&path).map_or(0, |it| it.len()) < 100 {
        thread::yield_now();
    }
}

/// An owner in its own process: runs one script in the world of the test that started it. Run as a
/// normal test, it only checks that this works.
#[test]
fn helper_process_runs_one_command() {
    let Some((level, root)) = owner_request() else {
        let world = ConfinementWorld::new(Confinement::Namespaces);
        assert_eq!(world.run_script("echo owned"), "owned\n");
        return;
    };
    let world = ConfinementWorld::reopen(level, &root);
    let mut words = std::io::stdin().lines();
    let script = words.next().unwrap().unwrap();
    let waiting = world.processes.prepare(&world.command(&script)).unwrap();
    println!(
        "mark {}",
        serde_json::to_string(waiting.identity()).unwrap()
    );
    // Exits silently if the test has died.
    if words.next().is_some_and(|word| word.unwrap() == "go") {
        let finished = waiting.run(&StopSignal::new());
        println!("finished {:?}", finished.map(|it| it.exit));
    }
}

/// An owner process that has prepared a command.
struct CommandOwner {
    process: Child,
    mark: ProcessIdentity,
    outcomes: mpsc::Receiver<String>,
    cleanup: Option<ProcessCleanup>,
}

impl CommandOwner {
    fn start(world: &ConfinementWorld, level: Confinement, script: &str) -> Self {
        let this = std::env::current_exe().unwrap();
        let mut command = world.other_process(&this, level);
        command.args([
            "--exact",
            "process_lifetimes::helper_process_runs_one_command",
            "--nocapture",
        ]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let stdin = process.stdin.as_mut().unwrap();
        writeln!(stdin, "{script}").unwrap();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let mark: ProcessIdentity = loop {
            let mut line = String::new();
            assert_ne!(stdout.read_line(&mut line).unwrap(), 0, "the owner failed");
            if let Some((_, mark)) = line.split_once("mark ") {
                break serde_json::from_str(mark).unwrap();
            }
        };
        let (sender, outcomes) = mpsc::channel();
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if let Some((_, said)) = line.split_once("finished ") {
                    let _ = sender.send(said.to_owned());
                }
            }
        });
        let cleanup = Some(ProcessCleanup(mark.clone()));
        Self {
            process,
            mark,
            outcomes,
            cleanup,
        }
    }

    fn send_start(&mut self) {
        writeln!(self.process.stdin.as_mut().unwrap(), "go").unwrap();
    }

    /// Kills only the owner. The returned value kills what is left when the test ends.
    fn kill(mut self) -> ProcessCleanup {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.cleanup.take().unwrap()
    }

    fn supervisor(&self) -> Pid {
        Pid::from_raw(self.mark.process_group).unwrap()
    }
}

impl Drop for CommandOwner {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Kills leftovers, so that a failing test leaves no process behind.
struct ProcessCleanup(ProcessIdentity);

impl Drop for ProcessCleanup {
    fn drop(&mut self) {
        for pid in processes_with_mark(&self.0)
            .into_iter()
            .filter_map(Pid::from_raw)
        {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

fn is_running(process: i32) -> bool {
    let state = fs::read_to_string(format!("/proc/{process}/stat"));
    state.is_ok_and(|state| !state.rsplit_once(") ").unwrap().1.starts_with('Z'))
}

#[test]
fn commands_die_with_their_killed_owner() {
    for level in LEVELS {
        let world = ConfinementWorld::new(level);
        let fifo = Fifo::create(&world);
        let mut owner = CommandOwner::start(&world, level, &daemon_script("sleep 100"));
        owner.send_start();
        let fifo = Fifo::open(&fifo);
        wait_for_daemon_output(&world);
        let supervisor = pidfd_open(owner.supervisor(), PidfdFlags::empty()).unwrap();
        let left = owner.kill();
        let mark = &left.0;
        fifo.wait_until_closed();
        let size = fs::metadata(world.tree().join("grown")).unwrap().len();
        wait_for_exit(&supervisor);
        assert!(!is_running(mark.process_group), "{level}");
        // A takeover finds nothing left to kill.
        world.processes.kill_leftovers(mark).unwrap();
        let now = fs::metadata(world.tree().join("grown")).unwrap().len();
        assert_eq!(
            now, size,
            "{level}: something was written after the owner's death"
        );
        assert_eq!(processes_with_mark(mark), [0; 0], "{level}");
    }
}

/// Kills the owner at different moments: before, during and after the start of the command.
#[test]
fn no_process_survives_an_owner_killed_during_start() {
    for level in LEVELS {
        let world = ConfinementWorld::new(level);
        let script = DAEMON.replace("exec 9>fifo;", "exec 9>/dev/null;") + "sleep 100";
        for round in 0..8 {
            let mut owner = CommandOwner::start(&world, level, &script);
            let supervisor = pidfd_open(owner.supervisor(), PidfdFlags::empty()).unwrap();
            owner.send_start();
            (0..round * round * 200).for_each(|_| thread::yield_now());
            let left = owner.kill();
            let mark = &left.0;
            wait_for_exit(&supervisor);
            // The supervisor exits last, so all others are gone by now.
            assert_eq!(processes_with_mark(mark), [0; 0], "{level}: round {round}");
        }
    }
}

#[test]
fn no_command_runs_before_the_start_signal() {
    for level in LEVELS {
        let world = ConfinementWorld::new(level);
        let owner = CommandOwner::start(&world, level, "touch ran");
        let supervisor = pidfd_open(owner.supervisor(), PidfdFlags::empty()).unwrap();
        // Runs later commands to completion. By then, a command that did not wait for the start
        // signal would have run.
        for _ in 0..5 {
            let later = world.processes.prepare(&world.command("true")).unwrap();
            let _cleanup = ProcessCleanup(later.identity().clone());
            let finished = later.run(&StopSignal::new()).unwrap();
            assert_eq!(finished.exit, CommandExit::Exited(0), "{level}");
        }
        assert!(!world.tree().join("ran").exists(), "{level}");
        assert!(is_running(owner.mark.process_group), "{level}");
        let left = owner.kill();
        let mark = &left.0;
        wait_for_exit(&supervisor);
        assert!(!world.tree().join("ran").exists(), "{level}");
        world.processes.kill_leftovers(mark).unwrap();
    }
}

/// Waits for the exit of a process that is not our child.
#[track_caller]
fn wait_for_exit(handle: &OwnedFd) {
    let timeout = Timespec::try_from(TIMEOUT).unwrap();
    let gone = poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&timeout));
    assert_eq!(gone, Ok(1), "it is still alive");
}

/// Returns the processes that carry the mark of this supervisor.
fn processes_with_mark(mark: &ProcessIdentity) -> Vec<i32> {
    let entry = format!("AGENTS_CONFINED_BY={}-{}", mark.process_group, mark.started);
    let numbers = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            name.to_str()?.parse::<i32>().ok()
        });
    let has_it = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut entries = environment.split(|byte| *byte == 0);
        entries.any(|one| one == entry.as_bytes())
    };
    numbers.filter(has_it).collect()
}

#[test]
fn takeover_ends_the_commands_of_a_hanging_owner() {
    for level in LEVELS {
        let world = ConfinementWorld::new(level);
        let fifo = Fifo::create(&world);
        let mut owner = CommandOwner::start(&world, level, &daemon_script("sleep 100"));
        owner.send_start();
        let fifo = Fifo::open(&fifo);
        let other_boot = ProcessIdentity {
            boot_id: "another".to_owned(),
            ..owner.mark.clone()
        };
        let other_start = ProcessIdentity {
            started: owner.mark.started - 1,
            ..owner.mark.clone()
        };
        for mark in [other_boot, other_start] {
            world.processes.kill_leftovers(&mark).unwrap();
            assert!(
                is_running(owner.mark.process_group),
                "{level}: a stranger was ended"
            );
        }
        world.processes.kill_leftovers(&owner.mark).unwrap();
        assert!(!is_running(owner.mark.process_group), "{level}");
        assert_eq!(processes_with_mark(&owner.mark), [0; 0], "{level}");
        fifo.wait_until_closed();
        let said = owner.outcomes.recv_timeout(TIMEOUT).unwrap();
        assert_eq!(said, "Ok(Signalled(9))", "{level}");
        owner.kill();
    }
}

/// The supervisor is killed from outside (the command itself cannot reach it). The kernel kills
/// what is tied to it; the owner, or a later takeover, kills the rest.
#[test]
fn no_process_survives_a_killed_supervisor() {
    for level in LEVELS {
        let world = ConfinementWorld::new(level);
        let fifo = Fifo::create(&world);
        let mut owner = CommandOwner::start(&world, level, &daemon_script("sleep 100"));
        owner.send_start();
        let fifo = Fifo::open(&fifo);
        kill_process(owner.supervisor(), Signal::KILL).unwrap();
        fifo.wait_until_closed();
        let said = owner.outcomes.recv_timeout(TIMEOUT).unwrap();
        assert_eq!(said, "Ok(Signalled(9))", "{level}");
        assert_eq!(processes_with_mark(&owner.mark), [0; 0], "{level}");
        let left = owner.kill();
        let mark = &left.0;
        world.processes.kill_leftovers(mark).unwrap();
    }
}

/// Tests what the kernel does alone: with namespaces all processes die with the supervisor, with
/// Landlock only the command itself.
#[test]
fn a_command_dies_with_its_supervisor_despite_a_hanging_owner() {
    let alone = "exec 9>fifo; echo ready >&9; exec sleep 100".to_owned();
    for (level, script) in [
        (Confinement::Namespaces, daemon_script("sleep 100")),
        (Confinement::Landlock, alone),
    ] {
        let world = ConfinementWorld::new(level);
        let fifo = Fifo::create(&world);
        let mut owner = CommandOwner::start(&world, level, &script);
        owner.send_start();
        let fifo = Fifo::open(&fifo);
        let process = i32::try_from(owner.process.id()).unwrap();
        kill_process(Pid::from_raw(process).unwrap(), Signal::STOP).unwrap();
        kill_process(owner.supervisor(), Signal::KILL).unwrap();
        fifo.wait_until_closed();
        owner.kill();
    }
}

/// Runs the daemon's command in this process. Stops it once the daemon is running, unless a timeout
/// is set. Returns how it ended, after the FIFO was closed.
fn run_daemon_until_stopped(
    world: &ConfinementWorld,
    timeout: Duration,
) -> ProcessResult<CommandExit> {
    let path = Fifo::create(world);
    let mut command = world.command(&daemon_script("sleep 100"));
    command.timeout = timeout;
    let waiting = world.processes.prepare(&command).unwrap();
    let mark = waiting.identity().clone();
    let _cleanup = ProcessCleanup(mark.clone());
    let stop = StopSignal::new();
    let stop_too = stop.clone();
    let finished = thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let fifo = Fifo::open(&path);
            wait_for_daemon_output(world);
            if timeout == Duration::MAX {
                stop_too.stop(StopReason::Cancelled);
            }
            fifo
        });
        let finished = waiting.run(&stop);
        assert_eq!(processes_with_mark(&mark), [0; 0]);
        reader.join().unwrap().wait_until_closed();
        finished
    });
    finished.map(|it| it.exit)
}

#[test]
fn the_daemon_of_a_command_ends_with_the_command() {
    // Exits by itself once the daemon is running.
    let wait = "while ! test -s grown; do :; done; while test $(wc -c < grown) -lt 100; do :; done";
    for level in LEVELS {
        let world = ConfinementWorld::new(level);
        let path = Fifo::create(&world);
        let waiting = world
            .processes
            .prepare(&world.command(&daemon_script(wait)))
            .unwrap();
        let mark = waiting.identity().clone();
        let _cleanup = ProcessCleanup(mark.clone());
        let reader = thread::spawn(move || Fifo::open(&path));
        let finished = waiting.run(&StopSignal::new()).unwrap();
        assert_eq!(finished.exit, CommandExit::Exited(0), "{level}");
        // All are dead by the time `run` returns.
        assert_eq!(processes_with_mark(&mark), [0; 0], "{level}");
        let size = fs::metadata(world.tree().join("grown")).unwrap().len();
        reader.join().unwrap().wait_until_closed();
        assert_eq!(
            fs::metadata(world.tree().join("grown")).unwrap().len(),
            size,
            "{level}"
        );
    }
}

#[test]
fn the_stop_signal_ends_command_and_daemon() {
    for level in LEVELS {
        let world = ConfinementWorld::new(level);
        let ended = run_daemon_until_stopped(&world, Duration::MAX);
        assert_eq!(
            ended,
            Ok(CommandExit::Stopped(StopReason::Cancelled)),
            "{level}"
        );
    }
}

#[test]
fn a_timeout_ends_command_and_daemon() {
    for level in LEVELS {
        let world = ConfinementWorld::new(level);
        let ended = run_daemon_until_stopped(&world, Duration::from_secs(2));
        assert_eq!(
            ended,
            Ok(CommandExit::Stopped(StopReason::TimedOut)),
            "{level}"
        );
    }
}

/// A writer like the daemon, but without anything that identifies its command: no environment,
/// folder, session or file except the FIFO.
const UNMARKED_DAEMON: &str = "exec 9>fifo; \
    (cd / && exec env -i /usr/bin/setsid /usr/bin/timeout -s KILL 100 \
    /bin/sh -c 'trap \"\" TERM HUP INT; echo ready >&9; while :; do :; done' \
    </dev/null >/dev/null 2>&1 &) ; ";

#[test]
fn takeover_ends_processes_without_a_mark() {
    for level in LEVELS {
        let world = ConfinementWorld::new(level);
        // A concurrent command with a process that hides in the same way; it must survive.
        let alive = world.command(&UNMARKED_DAEMON.replace("exec 9>fifo;", "exec 9>/dev/null;"));
        let alive = world.processes.prepare(&ConfinedCommand {
            argv: vec!["sh".into(), "-c".into(), {
                let mut script = alive.argv[2].clone();
                script.push("while ! test -e over; do sleep 0.1; done; echo unharmed");
                script
            }],
            ..alive
        });
        let alive = alive.unwrap();
        let _cleanup = ProcessCleanup(alive.identity().clone());
        let alive = thread::spawn(move || alive.run(&StopSignal::new()).unwrap());
        let fifo = Fifo::create(&world);
        let mut owner = CommandOwner::start(&world, level, &format!("{UNMARKED_DAEMON}sleep 100"));
        owner.send_start();
        let fifo = Fifo::open(&fifo);
        let supervisor = owner.supervisor();
        let process = i32::try_from(owner.process.id()).unwrap();
        kill_process(Pid::from_raw(process).unwrap(), Signal::STOP).unwrap();
        kill_process(supervisor, Signal::KILL).unwrap();
        let left = owner.kill();
        world.processes.kill_leftovers(&left.0).unwrap();
        fifo.wait_until_closed();
        write(&world.tree().join("over"), "");
        let finished = alive.join().unwrap();
        assert_eq!(finished.exit, CommandExit::Exited(0), "{level}");
        assert_eq!(text(&finished.stdout), "unharmed\n", "{level}");
    }
}

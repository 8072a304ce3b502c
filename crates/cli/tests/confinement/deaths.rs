//! Nothing of a command outlives its owner, its time or its own end.
//!
//! What tells is a FIFO in the tree: every process of the command holds it open for writing, so
//! its end is read when, and only when, the last of them is dead.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use cleveragents_domain::process::{Confinement, ProcessMark};
use cleveragents_engine::ports::processes::{ConfinedCommand, Ended, ProcessResult};
use cleveragents_engine::ports::stop::{Stop, Stopped};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::world::{LEVELS, World, owner_request, text, write};

/// Leaves a writer behind that has forked twice and has a session of its own. It appends to
/// `grown` as fast as it can and ignores every signal it may; after a while it ends all the same,
/// lest a test that fails fills the disk.
const DAEMON: &str = "exec 9>fifo; \
    (setsid timeout -s KILL 100 \
    sh -c 'trap \"\" TERM HUP INT; echo ready >&9; while :; do echo x >> grown; done' \
    </dev/null >/dev/null 2>&1 &) ; ";

/// Longer than it takes on a busy machine, and shorter than the daemon lives.
const PATIENCE: Duration = Duration::from_secs(30);

/// A command of which the daemon is all that stays.
fn daemon_and(then: &str) -> String {
    format!("{DAEMON}{then}")
}

/// The reading end of the FIFO in the tree.
struct Fifo(BufReader<File>);

impl Fifo {
    fn make(world: &World) -> PathBuf {
        let path = world.tree().join("fifo");
        let made = world.says("mkfifo fifo");
        assert_eq!(made, "");
        path
    }

    /// Waits until the daemon is there.
    fn open(path: &Path) -> Self {
        let mut fifo = BufReader::new(File::open(path).unwrap());
        let mut line = String::new();
        fifo.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self(fifo)
    }

    /// Waits until nobody holds it any more.
    #[track_caller]
    fn wait_for_silence(mut self) {
        let (tell, silence) = mpsc::channel();
        thread::spawn(move || {
            let read = self.0.read_to_end(&mut Vec::new());
            let _ = tell.send(read.is_ok());
        });
        let silent = silence.recv_timeout(PATIENCE);
        assert_eq!(silent, Ok(true), "somebody is still alive");
    }
}

/// Waits until the daemon has written, so that it is certainly at it.
fn wait_for_growth(world: &World) {
    let path = world.tree().join("grown");
    while fs::metadata(&path).map_or(0, |it| it.len()) < 100 {
        thread::yield_now();
    }
}

/// An owner of its own process: runs one script in the world of this test. Told to by the test
/// that started it, or for itself.
#[test]
fn an_owner_runs_its_command() {
    let Some((level, root)) = owner_request() else {
        let world = World::new(Confinement::Namespaces);
        assert_eq!(world.says("echo owned"), "owned\n");
        return;
    };
    let world = World::again(level, &root);
    let mut words = std::io::stdin().lines();
    let script = words.next().unwrap().unwrap();
    let waiting = world.processes.prepare(&world.command(&script)).unwrap();
    println!("mark {}", serde_json::to_string(waiting.mark()).unwrap());
    // Ends without a word if the test goes away.
    if words.next().is_some_and(|word| word.unwrap() == "go") {
        let finished = waiting.go(&Stop::new());
        println!("finished {:?}", finished.map(|it| it.ended));
    }
}

/// An owner that has prepared a command.
struct Owner {
    process: Child,
    mark: ProcessMark,
    said: mpsc::Receiver<String>,
    leavings: Option<Leavings>,
}

impl Owner {
    fn start(world: &World, level: Confinement, script: &str) -> Self {
        let this = std::env::current_exe().unwrap();
        let mut command = world.other_process(&this, level);
        command.args([
            "--exact",
            "deaths::an_owner_runs_its_command",
            "--nocapture",
        ]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let stdin = process.stdin.as_mut().unwrap();
        writeln!(stdin, "{script}").unwrap();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let mark: ProcessMark = loop {
            let mut line = String::new();
            assert_ne!(stdout.read_line(&mut line).unwrap(), 0, "the owner failed");
            if let Some((_, mark)) = line.split_once("mark ") {
                break serde_json::from_str(mark).unwrap();
            }
        };
        let (tell, said) = mpsc::channel();
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if let Some((_, said)) = line.split_once("finished ") {
                    let _ = tell.send(said.to_owned());
                }
            }
        });
        let leavings = Some(Leavings(mark.clone()));
        Self {
            process,
            mark,
            said,
            leavings,
        }
    }

    fn go(&mut self) {
        writeln!(self.process.stdin.as_mut().unwrap(), "go").unwrap();
    }

    /// Kills the owner alone. What is left is nobody's until the test is over.
    fn kill(mut self) -> Leavings {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.leavings.take().unwrap()
    }

    fn supervisor(&self) -> Pid {
        Pid::from_raw(self.mark.process_group).unwrap()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A test that fails leaves nobody behind.
struct Leavings(ProcessMark);

impl Drop for Leavings {
    fn drop(&mut self) {
        for pid in marked(&self.0).into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

fn is_there(process: i32) -> bool {
    let state = fs::read_to_string(format!("/proc/{process}/stat"));
    state.is_ok_and(|state| !state.rsplit_once(") ").unwrap().1.starts_with('Z'))
}

#[test]
fn an_owner_that_is_killed_takes_its_commands_along() {
    for level in LEVELS {
        let world = World::new(level);
        let fifo = Fifo::make(&world);
        let mut owner = Owner::start(&world, level, &daemon_and("sleep 100"));
        owner.go();
        let fifo = Fifo::open(&fifo);
        wait_for_growth(&world);
        let supervisor = pidfd_open(owner.supervisor(), PidfdFlags::empty()).unwrap();
        let left = owner.kill();
        let mark = &left.0;
        fifo.wait_for_silence();
        let size = fs::metadata(world.tree().join("grown")).unwrap().len();
        wait_until_gone(&supervisor);
        assert!(!is_there(mark.process_group), "{level}");
        // There is nothing left to do for who takes over.
        world.processes.end(mark).unwrap();
        let now = fs::metadata(world.tree().join("grown")).unwrap().len();
        assert_eq!(
            now, size,
            "{level}: something was written after the owner's death"
        );
        assert_eq!(marked(mark), [0; 0], "{level}");
    }
}

/// Killed at different moments of the start: before, while and after the command comes to be.
#[test]
fn an_owner_killed_at_any_moment_leaves_nothing_behind() {
    for level in LEVELS {
        let world = World::new(level);
        let script = DAEMON.replace("exec 9>fifo;", "exec 9>/dev/null;") + "sleep 100";
        for round in 0..8 {
            let mut owner = Owner::start(&world, level, &script);
            let supervisor = pidfd_open(owner.supervisor(), PidfdFlags::empty()).unwrap();
            owner.go();
            (0..round * round * 200).for_each(|_| thread::yield_now());
            let left = owner.kill();
            let mark = &left.0;
            wait_until_gone(&supervisor);
            // The supervisor goes last.
            assert_eq!(marked(mark), [0; 0], "{level}: round {round}");
        }
    }
}

#[test]
fn an_owner_that_dies_before_the_word_lets_nothing_run() {
    for level in LEVELS {
        let world = World::new(level);
        let owner = Owner::start(&world, level, "touch ran");
        let supervisor = pidfd_open(owner.supervisor(), PidfdFlags::empty()).unwrap();
        // Others that came later run to their ends, one after the other: a command that did not
        // wait for the word would have run by then.
        for _ in 0..5 {
            let later = world.processes.prepare(&world.command("true")).unwrap();
            let _leavings = Leavings(later.mark().clone());
            let finished = later.go(&Stop::new()).unwrap();
            assert_eq!(finished.ended, Ended::Exited(0), "{level}");
        }
        assert!(!world.tree().join("ran").exists(), "{level}");
        assert!(is_there(owner.mark.process_group), "{level}");
        let left = owner.kill();
        let mark = &left.0;
        wait_until_gone(&supervisor);
        assert!(!world.tree().join("ran").exists(), "{level}");
        world.processes.end(mark).unwrap();
    }
}

/// Waits for the end of a process that is not our child.
#[track_caller]
fn wait_until_gone(handle: &OwnedFd) {
    let patience = Timespec::try_from(PATIENCE).unwrap();
    let gone = poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&patience));
    assert_eq!(gone, Ok(1), "it is still alive");
}

/// Processes that bear the mark of this supervisor.
fn marked(mark: &ProcessMark) -> Vec<i32> {
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
fn whoever_takes_over_ends_what_a_hanging_owner_left() {
    for level in LEVELS {
        let world = World::new(level);
        let fifo = Fifo::make(&world);
        let mut owner = Owner::start(&world, level, &daemon_and("sleep 100"));
        owner.go();
        let fifo = Fifo::open(&fifo);
        let other_boot = ProcessMark {
            boot_id: "another".to_owned(),
            ..owner.mark.clone()
        };
        let other_start = ProcessMark {
            started: owner.mark.started - 1,
            ..owner.mark.clone()
        };
        for mark in [other_boot, other_start] {
            world.processes.end(&mark).unwrap();
            assert!(
                is_there(owner.mark.process_group),
                "{level}: a stranger was ended"
            );
        }
        world.processes.end(&owner.mark).unwrap();
        assert!(!is_there(owner.mark.process_group), "{level}");
        assert_eq!(marked(&owner.mark), [0; 0], "{level}");
        fifo.wait_for_silence();
        let said = owner.said.recv_timeout(PATIENCE).unwrap();
        assert_eq!(said, "Ok(Signalled(9))", "{level}");
        owner.kill();
    }
}

/// Somebody kills the supervisor, whom the command itself cannot reach: with it dies what the
/// kernel ties to it, and the rest when the owner looks, or whoever takes over.
#[test]
fn a_killed_supervisor_leaves_nothing_that_is_not_found() {
    for level in LEVELS {
        let world = World::new(level);
        let fifo = Fifo::make(&world);
        let mut owner = Owner::start(&world, level, &daemon_and("sleep 100"));
        owner.go();
        let fifo = Fifo::open(&fifo);
        kill_process(owner.supervisor(), Signal::KILL).unwrap();
        fifo.wait_for_silence();
        let said = owner.said.recv_timeout(PATIENCE).unwrap();
        assert_eq!(said, "Ok(Signalled(9))", "{level}");
        assert_eq!(marked(&owner.mark), [0; 0], "{level}");
        let left = owner.kill();
        let mark = &left.0;
        world.processes.end(mark).unwrap();
    }
}

/// What the kernel alone does for us: with namespaces all dies with the supervisor, with Landlock
/// the command itself.
#[test]
fn a_killed_supervisor_takes_its_command_along_even_if_its_owner_hangs() {
    let alone = "exec 9>fifo; echo ready >&9; exec sleep 100".to_owned();
    for (level, script) in [
        (Confinement::Namespaces, daemon_and("sleep 100")),
        (Confinement::Landlock, alone),
    ] {
        let world = World::new(level);
        let fifo = Fifo::make(&world);
        let mut owner = Owner::start(&world, level, &script);
        owner.go();
        let fifo = Fifo::open(&fifo);
        let process = i32::try_from(owner.process.id()).unwrap();
        kill_process(Pid::from_raw(process).unwrap(), Signal::STOP).unwrap();
        kill_process(owner.supervisor(), Signal::KILL).unwrap();
        fifo.wait_for_silence();
        owner.kill();
    }
}

/// Runs the daemon's command here, stopped once it is at work unless its time is limited, and hands
/// back how it ended; the FIFO is silent by then.
fn run_daemon(world: &World, timeout: Duration) -> ProcessResult<Ended> {
    let path = Fifo::make(world);
    let mut command = world.command(&daemon_and("sleep 100"));
    command.timeout = timeout;
    let waiting = world.processes.prepare(&command).unwrap();
    let mark = waiting.mark().clone();
    let _leavings = Leavings(mark.clone());
    let stop = Stop::new();
    let stop_too = stop.clone();
    let finished = thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let fifo = Fifo::open(&path);
            wait_for_growth(world);
            if timeout == Duration::MAX {
                stop_too.stop(Stopped::Cancelled);
            }
            fifo
        });
        let finished = waiting.go(&stop);
        assert_eq!(marked(&mark), [0; 0]);
        reader.join().unwrap().wait_for_silence();
        finished
    });
    finished.map(|it| it.ended)
}

#[test]
fn the_daemon_of_a_command_ends_with_the_command() {
    // Ends by itself once the daemon is at work.
    let wait = "while ! test -s grown; do :; done; while test $(wc -c < grown) -lt 100; do :; done";
    for level in LEVELS {
        let world = World::new(level);
        let path = Fifo::make(&world);
        let waiting = world
            .processes
            .prepare(&world.command(&daemon_and(wait)))
            .unwrap();
        let mark = waiting.mark().clone();
        let _leavings = Leavings(mark.clone());
        let reader = thread::spawn(move || Fifo::open(&path));
        let finished = waiting.go(&Stop::new()).unwrap();
        assert_eq!(finished.ended, Ended::Exited(0), "{level}");
        // No later than `go` returned.
        assert_eq!(marked(&mark), [0; 0], "{level}");
        let size = fs::metadata(world.tree().join("grown")).unwrap().len();
        reader.join().unwrap().wait_for_silence();
        assert_eq!(
            fs::metadata(world.tree().join("grown")).unwrap().len(),
            size,
            "{level}"
        );
    }
}

#[test]
fn the_word_to_stop_ends_command_and_daemon() {
    for level in LEVELS {
        let world = World::new(level);
        let ended = run_daemon(&world, Duration::MAX);
        assert_eq!(ended, Ok(Ended::Stopped(Stopped::Cancelled)), "{level}");
    }
}

#[test]
fn the_end_of_its_time_ends_command_and_daemon() {
    for level in LEVELS {
        let world = World::new(level);
        let ended = run_daemon(&world, Duration::from_secs(2));
        assert_eq!(ended, Ok(Ended::Stopped(Stopped::TimedOut)), "{level}");
    }
}

/// A writer like the daemon, of which nothing is left that tells whose it is: no environment, no
/// folder, no session, no file but the FIFO.
const STRANGER: &str = "exec 9>fifo; \
    (cd / && exec env -i /usr/bin/setsid /usr/bin/timeout -s KILL 100 \
    /bin/sh -c 'trap \"\" TERM HUP INT; echo ready >&9; while :; do :; done' \
    </dev/null >/dev/null 2>&1 &) ; ";

#[test]
fn what_hides_from_its_dead_owner_is_ended_by_whoever_takes_over() {
    for level in LEVELS {
        let world = World::new(level);
        // A command that is alive meanwhile, with a process that hides in the same way.
        let alive = world.command(&STRANGER.replace("exec 9>fifo;", "exec 9>/dev/null;"));
        let alive = world.processes.prepare(&ConfinedCommand {
            argv: vec!["sh".into(), "-c".into(), {
                let mut script = alive.argv[2].clone();
                script.push("while ! test -e over; do sleep 0.1; done; echo unharmed");
                script
            }],
            ..alive
        });
        let alive = alive.unwrap();
        let _leavings = Leavings(alive.mark().clone());
        let alive = thread::spawn(move || alive.go(&Stop::new()).unwrap());
        let fifo = Fifo::make(&world);
        let mut owner = Owner::start(&world, level, &format!("{STRANGER}sleep 100"));
        owner.go();
        let fifo = Fifo::open(&fifo);
        let supervisor = owner.supervisor();
        let process = i32::try_from(owner.process.id()).unwrap();
        kill_process(Pid::from_raw(process).unwrap(), Signal::STOP).unwrap();
        kill_process(supervisor, Signal::KILL).unwrap();
        let left = owner.kill();
        world.processes.end(&left.0).unwrap();
        fifo.wait_for_silence();
        write(&world.tree().join("over"), "");
        let finished = alive.join().unwrap();
        assert_eq!(finished.ended, Ended::Exited(0), "{level}");
        assert_eq!(text(&finished.stdout), "unharmed\n", "{level}");
    }
}

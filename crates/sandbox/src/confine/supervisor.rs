//! The process between owner and command: starts the command and makes sure that all of it ends.
//!
//! Its stdin is a socket to the owner. The owner sends the command's input (length, then bytes)
//! and, when it is ready, the start signal of one byte. If the socket closes at any time, the
//! command is no longer wanted. At the end the supervisor writes its [`SupervisorReport`].

use std::ffi::OsString;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdin, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;

use cleveragents_ports::limits::OverLimit;
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, pidfd_open, pidfd_send_signal,
    set_child_subreaper, wait,
};
use serde::{Deserialize, Serialize};

use super::bubblewrap::BubblewrapContext;
use super::entry_point::ConfineRequest;
use super::limits::CommandLimits;
use super::policy::{Enforcement, find_program};
use super::process_tree::{self, Process};
use super::{bubblewrap, limits, sockets, streams};

/// The start signal.
pub(super) const START: u8 = b'g';

/// Starting is retried, because a socket may vanish just when bubblewrap is about to cover it.
const MAX_ATTEMPTS: usize = 3;

/// The outcome of a command, reported when none of its processes is alive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SupervisorReport {
    Exited(i32),
    Signalled(i32),
    /// Killed because the owner closed the socket.
    Stopped,
    /// Killed because it exceeded a limit.
    OverLimit(OverLimit),
    NotStarted {
        reason: String,
    },
}

/// Waits for the start signal, runs the command, kills everything it left running, and reports.
pub(super) fn supervise(
    request: &ConfineRequest,
    search_path: Option<&OsString>,
) -> io::Result<()> {
    // Set before anything starts, so that every orphan of the command is reparented to this
    // process.
    set_child_subreaper(Some(getpid()))?;
    let limits = request.limits.as_ref().map(|it| it.limits);
    limits::set_kernel_limits(&limits.unwrap_or_default())?;
    let mut control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let Some(input) = wait_for_start(&mut control)? else {
        return Ok(());
    };
    let program = request.argv.first().cloned().unwrap_or_default();
    let report = match find_program(&program, request.policy.tree(), search_path) {
        Some(_) => run(request, &control, input)?,
        None => SupervisorReport::NotStarted {
            reason: format!("there is no program `{}`", program.display()),
        },
    };
    let report = serde_json::to_vec(&report)?;
    // Ignored: if the owner is gone, the report has no reader.
    let _ = control.write_all(&report);
    Ok(())
}

/// Returns the command's input after the start signal, or `None` if the owner closed the socket.
fn wait_for_start(control: &mut UnixStream) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 8];
    let mut input = Vec::new();
    let mut signal = [0; 1];
    let received = control.read_exact(&mut length).and_then(|()| {
        let length = u64::from_le_bytes(length);
        let read = Read::by_ref(control).take(length).read_to_end(&mut input)?;
        if (read as u64) < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        control.read_exact(&mut signal)
    });
    match received {
        Ok(()) => Ok((signal == [START]).then_some(input)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

fn run(
    request: &ConfineRequest,
    control: &UnixStream,
    input: Vec<u8>,
) -> io::Result<SupervisorReport> {
    let is_cancelled = Arc::new(AtomicBool::new(false));
    let mut attempt = 1;
    loop {
        let ended = run_once(request, control, input.clone(), &is_cancelled)?;
        match ended {
            Some(report) => return Ok(report),
            None if is_cancelled.load(Ordering::SeqCst) => return Ok(SupervisorReport::Stopped),
            None if attempt == MAX_ATTEMPTS => {
                return Ok(SupervisorReport::NotStarted {
                    reason: "bubblewrap could not set up its sandbox".to_owned(),
                });
            }
            None => attempt += 1,
        }
    }
}

/// Runs the command once. Returns `None` if it did not start.
fn run_once(
    request: &ConfineRequest,
    control: &UnixStream,
    input: Vec<u8>,
    is_cancelled: &Arc<AtomicBool>,
) -> io::Result<Option<SupervisorReport>> {
    let (mut child, status) = match start(request) {
        Ok(started) => started,
        Err(error) => {
            let reason = error.to_string();
            return Ok(Some(SupervisorReport::NotStarted { reason }));
        }
    };
    let child_pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let child_pid = child_pid.ok_or(io::ErrorKind::InvalidData)?;
    let handle = pidfd_open(child_pid, rustix::process::PidfdFlags::empty())?;
    let handle = Arc::new(handle);
    let over = Arc::new(OnceLock::new());
    let _watching = watch(request.limits.as_ref(), &handle, &over);
    let mut guarded = control.try_clone()?;
    let saw_end = Arc::clone(is_cancelled);
    thread::spawn(move || {
        // The owner sends nothing more, so this read ends when the socket closes.
        let _ = guarded.read(&mut [0; 1]);
        saw_end.store(true, Ordering::SeqCst);
        let _ = pidfd_send_signal(&*handle, Signal::KILL);
    });
    if let Some(stdin) = child.stdin.take() {
        thread::spawn(move || write_input(stdin, &input));
    }
    let ended = reap_until(child_pid)?;
    end_descendants()?;
    if is_cancelled.load(Ordering::SeqCst) {
        return Ok(Some(SupervisorReport::Stopped));
    }
    if let Some(over) = over.get() {
        return Ok(Some(SupervisorReport::OverLimit(over.clone())));
    }
    Ok(match status {
        None => exit_report(ended),
        Some(status) => bubblewrap_report(ended, status)?,
    })
}

/// Kills the child when its process tree exceeds a limit. Dropping the returned sender ends the
/// watch.
fn watch(
    command: Option<&CommandLimits>,
    child: &Arc<OwnedFd>,
    over: &Arc<OnceLock<OverLimit>>,
) -> Vec<mpsc::Sender<()>> {
    let Some(command) = command else {
        return Vec::new();
    };
    let end = || {
        let (child, over) = (Arc::clone(child), Arc::clone(over));
        move |found: Option<OverLimit>| {
            if let Some(found) = found {
                // Report the limit that was exceeded first.
                let _ = over.set(found);
                let _ = pidfd_send_signal(&*child, Signal::KILL);
            }
        }
    };
    let (processes, processes_done) = mpsc::channel();
    let (disk, disk_done) = mpsc::channel();
    let (me, limits, end_child) = (getpid().as_raw_nonzero().get(), command.limits, end());
    thread::spawn(move || end_child(limits::watch_processes(me, &limits, &processes_done)));
    let (command, end_child) = (command.clone(), end());
    thread::spawn(move || end_child(limits::watch_disk(&command, &disk_done)));
    vec![processes, disk]
}

/// A command that does not read its input is not an error.
fn write_input(mut stdin: ChildStdin, input: &[u8]) {
    let _ = stdin.write_all(input);
}

/// Starts the confined command. Returns also the pipe on which bubblewrap reports its exit.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place that starts commands, and they are confined and reaped here"
)]
fn start(request: &ConfineRequest) -> io::Result<(Child, Option<PipeReader>)> {
    let me = Process::from_pid(getpid().as_raw_nonzero().get());
    let me = me.ok_or(io::ErrorKind::NotFound)?;
    let (mut command, pipe) = match &request.policy.enforced_by {
        Enforcement::Bubblewrap(how) => {
            let (status, writer) = io::pipe()?;
            // No other process is started while the descriptor is inheritable, so only bubblewrap
            // gets it.
            fcntl_setfd(&writer, FdFlags::empty())?;
            let covered = sockets::visible_sockets(&request.policy.rules);
            let limits = request.limits.as_ref().map(|it| it.limits);
            let sandbox = BubblewrapContext {
                program: &std::fs::read_link("/proc/self/exe")?,
                covered: &covered,
                memory: limits.unwrap_or_default().memory,
                status: writer.as_raw_fd(),
            };
            let mut command = Command::new(how.program());
            command.args(bubblewrap::arguments(&request.policy, how, &sandbox));
            let policy = serde_json::to_string(&request.policy)?;
            command.args([bubblewrap::PROGRAM, "__run", "--in-bubblewrap"]);
            command.args(["--policy", &policy, "--"]);
            (command, Some((status, writer)))
        }
        Enforcement::Landlock | Enforcement::Nothing => {
            // Our own executable, even if another file has its path by now.
            let mut command = Command::new("/proc/self/exe");
            let policy = serde_json::to_string(&request.policy)?;
            command.args(["__run", "--confined-by", &me.pid.to_string()]);
            command.args(["--policy", &policy, "--"]);
            (command, None)
        }
    };
    command.args(&request.argv);
    command.env(process_tree::VARIABLE, me.token());
    streams::chown_output(request.policy.account)?;
    let (theirs, ours) = streams::input_pipe(request.policy.account)?;
    let mut child = command.stdin(theirs).spawn()?;
    child.stdin = Some(ours);
    // Our copy of the writing end is closed here; otherwise the report would have no end.
    Ok((child, pipe.map(|(status, _writer)| status)))
}

/// Reaps every process that ends until the child does.
fn reap_until(child: Pid) -> io::Result<WaitStatus> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == child => return Ok(status),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Kills all descendants of this process. Orphans are reparented to us, so as long as one is alive we
/// have a child.
fn end_descendants() -> io::Result<()> {
    let me = getpid().as_raw_nonzero().get();
    // Wait blocking only after a direct child was killed: only then is there certainly one to reap.
    let mut options = WaitOptions::NOHANG;
    // The first scan is the cheap one: usually only bubblewrap's last process is left and about to
    // end.
    let mut find: fn(i32) -> Vec<Process> = process_tree::listed_descendants;
    loop {
        match wait(options) {
            Ok(Some(_)) | Err(Errno::INTR) => options = WaitOptions::NOHANG,
            Err(Errno::CHILD) => return Ok(()),
            Err(error) => return Err(error.into()),
            Ok(None) => {
                let alive = find(me);
                find = process_tree::descendants;
                alive
                    .iter()
                    .for_each(|process| process.signal(Signal::KILL));
                if alive.iter().any(|process| process.parent == me) {
                    options = WaitOptions::empty();
                } else {
                    thread::yield_now();
                }
            }
        }
    }
}

fn exit_report(status: WaitStatus) -> Option<SupervisorReport> {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Some(SupervisorReport::Exited(code)),
        (None, Some(signal)) => Some(SupervisorReport::Signalled(signal)),
        (None, None) => None,
    }
}

/// Bubblewrap reports a signal as shells do, by an exit code above 128.
fn bubblewrap_report(
    ended: WaitStatus,
    mut status: PipeReader,
) -> io::Result<Option<SupervisorReport>> {
    let mut status_bytes = Vec::new();
    status.read_to_end(&mut status_bytes)?;
    Ok(match bubblewrap::exit_code(&status_bytes) {
        // Linux has 64 signals.
        Some(code @ 129..=192) => Some(SupervisorReport::Signalled(code - 128)),
        Some(code) => Some(SupervisorReport::Exited(code)),
        None => {
            exit_report(ended).filter(|report| matches!(report, SupervisorReport::Signalled(_)))
        }
    })
}

//! Runs the whole program and kills it at one of its system calls.
//!
//! `strace` stops the process after every call that changes something on disk (it injects SIGSTOP).
//! The test counts the stops of all threads and continues the process, or kills it at the given
//! stop. Children are detached when they start another program: only our own calls count, and a git
//! that we started survives the kill, as it does outside a test.

use std::fs::{self, File};
use std::path::Path;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::world::TestWorld;

/// Every call that changes files, folders or links, or makes them durable. None of them can be
/// interrupted by a pending signal: such a call would be restarted after each stop.
pub(crate) const CHANGING_CALLS: &str = "write,pwrite64,unlink,unlinkat,rmdir,rename,renameat,\
    renameat2,fsync,fdatasync,syncfs,mkdir,mkdirat,link,linkat,symlink,symlinkat,fchmod,chmod,\
    fchmodat,ftruncate,utimensat";

/// More stops than any run has; a run that reaches it is killed.
const MAX_STOPS: usize = 20_000;

#[derive(Debug)]
pub(crate) struct TraceOutcome {
    pub(crate) stops: usize,
    pub(crate) is_killed: bool,
    /// The last calls before the end, for messages.
    pub(crate) last_calls: String,
}

/// Returns the reason if processes cannot be traced here.
pub(crate) fn can_trace(world: &TestWorld) -> Result<(), String> {
    let strace = Path::new("strace");
    let tried = world
        .other_program(strace, &["-q", "-o", "/dev/null", "true"])
        .output();
    match tried {
        Err(error) => Err(format!("strace cannot be started: {error}")),
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// Runs our program and kills it at this stop; 0 lets it run to its end.
#[expect(clippy::zombie_processes, reason = "it is waited for by its id")]
pub(crate) fn kill_at(
    world: &TestWorld,
    arguments: &[&str],
    calls: &str,
    stop: usize,
) -> TraceOutcome {
    let log = world.path("calls.log");
    let _ = fs::remove_file(&log);
    let (trace, inject) = (
        format!("trace={calls}"),
        format!("inject={calls}:signal=SIGSTOP"),
    );
    let log_name = log.to_str().unwrap();
    let mut words = vec!["-D", "-f", "-q", "-b", "execve", "-o", log_name];
    words.extend(["-e", &trace, "-e", &inject, crate::world::AGENTS]);
    words.extend(arguments);
    let output = File::create(world.path("calls.out")).unwrap();
    let child = world
        .other_program(Path::new("strace"), &words)
        .stdout(output.try_clone().unwrap())
        .stderr(output)
        .spawn()
        .unwrap();
    // With -D the traced program itself is our child.
    let process = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    let mut stops = 0;
    let is_killed = loop {
        let (_, status) = waitpid(Some(process), WaitOptions::UNTRACED)
            .unwrap()
            .unwrap();
        if !status.stopped() {
            break status.terminating_signal() == Some(9);
        }
        stops += 1;
        assert!(
            stops < MAX_STOPS,
            "it does not get on:\n{}",
            last_lines(&log)
        );
        let signal = if stops == stop || stops == MAX_STOPS - 1 {
            Signal::KILL
        } else {
            Signal::CONT
        };
        kill_process(process, signal).unwrap();
    };
    TraceOutcome {
        stops,
        is_killed,
        last_calls: last_lines(&log),
    }
}

fn last_lines(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let is_call = |line: &&str| !line.contains("---") && !line.contains("+++");
    let calls: Vec<&str> = text.lines().filter(is_call).collect();
    calls[calls.len().saturating_sub(3)..].join("\n")
}

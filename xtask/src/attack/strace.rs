//! Runs the program under strace, which sends it a signal at a chosen system call.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use super::machine::{Machine, RunningCommand};

/// The program with these arguments under strace, which detaches from child processes at `execve`.
pub fn command(machine: &Machine, options: &[&str], words: &[&str]) -> Command {
    let program = machine.program().to_string_lossy().into_owned();
    let strace = ["strace", "-f", "-qq", "--detach-on=execve"];
    let mut command = machine.command(&[&strace[..], options, &[&program], words].concat());
    command.current_dir(machine.path("home"));
    command
}

/// The options that send a signal at the n-th call of that name in a thread.
pub fn inject(call: &str, number: usize, signal: &str) -> Vec<String> {
    let trace = format!("trace={call}");
    let inject = format!("inject={call}:signal={signal}:when={number}");
    ["-o", "/dev/null", "-e", &trace, "-e", &inject]
        .map(str::to_owned)
        .to_vec()
}

/// Waits until the traced program is stopped; returns false if it ended instead.
pub fn wait_until_stopped(running: &mut RunningCommand, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    let mut stopped = 0;
    while stopped < 10 && Instant::now() < deadline {
        if !matches!(running.child.try_wait(), Ok(None)) {
            return false;
        }
        if is_stopped(running.child.id()) {
            stopped += 1;
        } else {
            stopped = 0;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    stopped >= 10
}

/// Returns whether strace's only child is stopped.
fn is_stopped(strace: u32) -> bool {
    let children = fs::read_to_string(format!("/proc/{strace}/task/{strace}/children"));
    let children = children.unwrap_or_default();
    let Some(child) = children.split_whitespace().next() else {
        return false;
    };
    let stat = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
    state.starts_with(['T', 't'])
}

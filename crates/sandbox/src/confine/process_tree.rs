//! Processes as listed by the kernel: who descends from whom, and how they are killed.
//!
//! A process id identifies a process only together with its start time. Every signal goes through a
//! pidfd that was checked against both, so a process that reused the id is never signalled.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Environment variable that marks every process of a command with its supervisor's token.
pub(super) const VARIABLE: &str = "AGENTS_CONFINED_BY";

/// A snapshot of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) parent: i32,
    /// In clock ticks since boot.
    pub(super) started: u64,
    pub(super) state: ProcessState,
    pub(super) threads: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProcessState {
    Alive,
    Stopped,
    /// A zombie: it has ended and waits to be reaped.
    Dead,
}

impl Process {
    /// Returns the process that has this id now.
    pub(super) fn from_pid(pid: i32) -> Option<Self> {
        let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
        parse(pid, &String::from_utf8_lossy(&text))
    }

    pub(super) fn is_dead(self) -> bool {
        self.state == ProcessState::Dead
    }

    /// Returns whether the process has ended, or its id belongs to another process now.
    pub(super) fn is_gone(self) -> bool {
        Self::from_pid(self.pid).is_none_or(|now| now.started != self.started || now.is_dead())
    }

    /// Returns a pidfd of exactly this process, or `None` if it has ended.
    pub(super) fn open_handle(self) -> Option<OwnedFd> {
        let handle = pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        // Checked after opening: if the process is still the same one, the handle is of it.
        (!self.is_gone()).then_some(handle)
    }

    /// Sends a signal. Does nothing if the process has ended.
    pub(super) fn signal(self, signal: Signal) {
        if let Some(handle) = self.open_handle() {
            // The process may end at this moment, which is fine.
            let _ = pidfd_send_signal(&handle, signal);
        }
    }

    /// Kills the process and waits until it has ended.
    pub(super) fn kill_and_wait(self) -> io::Result<()> {
        let Some(handle) = self.open_handle() else {
            return Ok(());
        };
        match pidfd_send_signal(&handle, Signal::KILL) {
            Ok(()) => wait_until_gone(&handle),
            Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The token that marks its descendants.
    pub(super) fn token(self) -> String {
        token(self.pid, self.started)
    }
}

/// Waits until the process of the pidfd has ended.
fn wait_until_gone(handle: &OwnedFd) -> io::Result<()> {
    loop {
        match poll(&mut [PollFd::new(handle, PollFlags::IN)], None) {
            Err(Errno::INTR) => {}
            answer => return answer.map(drop).map_err(io::Error::from),
        }
    }
}

/// The token that marks the descendants of the supervisor with this id and start time.
pub(super) fn token(pid: i32, started: u64) -> String {
    format!("{pid}-{started}")
}

/// Returns all processes of this machine that are visible to us.
pub(super) fn all_processes() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let numbers = entries.flatten().filter_map(|entry| {
        let name = entry.file_name();
        name.to_str()?.parse::<i32>().ok()
    });
    numbers.filter_map(Process::from_pid).collect()
}

/// Returns all living descendants of `ancestor`.
pub(super) fn descendants(ancestor: i32) -> Vec<Process> {
    let all = all_processes();
    let mut family = vec![ancestor];
    let mut found = Vec::new();
    let mut next = 0;
    while let Some(parent) = family.get(next).copied() {
        next += 1;
        for child in all.iter().filter(|it| it.parent == parent) {
            family.push(child.pid);
            if !child.is_dead() {
                found.push(*child);
            }
        }
    }
    found
}

/// Like [`descendants`], for a supervisor, from the lists of children that the kernel keeps per
/// thread, without scanning all processes. May miss a process if others end meanwhile. Falls back to
/// the full scan if the kernel has no such lists.
pub(super) fn listed_descendants(ancestor: i32) -> Vec<Process> {
    // The first thread of a supervisor starts the command and inherits the orphans. Reading the other
    // threads would create kernel entries that cause contention when the process ends.
    let first = format!("/proc/{ancestor}/task/{ancestor}");
    children(Path::new(&first)).map_or_else(|_| descendants(ancestor), with_listed_descendants)
}

/// Returns those of these processes that are alive, and all their descendants in the kernel's lists.
fn with_listed_descendants(mut next: Vec<i32>) -> Vec<Process> {
    let mut found = Vec::new();
    while let Some(process) = next.pop() {
        let threads = fs::read_dir(format!("/proc/{process}/task"));
        for thread in threads.into_iter().flatten().flatten() {
            // The children of a thread that ended have another parent now.
            next.extend(children(&thread.path()).unwrap_or_default());
        }
        found.extend(Process::from_pid(process).filter(|it| !it.is_dead()));
    }
    found
}

/// Returns the current children of a thread, given its folder in `/proc`.
fn children(thread: &Path) -> io::Result<Vec<i32>> {
    let list = fs::read_to_string(thread.join("children"))?;
    let words = list.split_whitespace();
    Ok(words.filter_map(|word| word.parse().ok()).collect())
}

/// Kills every process marked with this token and waits until all have ended.
pub(super) fn kill_marked(token: &str) -> io::Result<()> {
    let entry = format!("{VARIABLE}={token}").into_bytes();
    // A marked process may have started another one before it was killed.
    loop {
        let marked: Vec<Process> = all_processes()
            .into_iter()
            .filter(|process| !process.is_dead() && has_variable(*process, &entry))
            .collect();
        if marked.is_empty() {
            return Ok(());
        }
        marked
            .iter()
            .try_for_each(|process| process.kill_and_wait())?;
    }
}

fn has_variable(process: Process, entry: &[u8]) -> bool {
    let environment = fs::read(format!("/proc/{}/environ", process.pid));
    environment.is_ok_and(|bytes| bytes.split(|byte| *byte == 0).any(|one| one == entry))
}

/// Returns an id that changes with every boot.
pub(super) fn boot_id() -> io::Result<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(text.trim_end().to_owned())
}

/// A program's name may contain anything, so parsing starts after the last parenthesis.
fn parse(pid: i32, text: &str) -> Option<Process> {
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // `/proc/PID/stat` without pid and name: the parent is field 1, `num_threads` 17, `starttime`
    // 19.
    Some(Process {
        pid,
        state: match *fields.first()? {
            "Z" | "X" | "x" => ProcessState::Dead,
            "T" | "t" => ProcessState::Stopped,
            _ => ProcessState::Alive,
        },
        parent: fields.get(1)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
        threads: fields.get(17)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_program_name_is_parsed() {
        let text = "7 (a ) Z 1 (b) S 3 7 7 0 -1 1 0 0 0 0 0 0 0 0 20 0 1 0 4711 8 9";
        let expected = Process {
            pid: 7,
            parent: 3,
            started: 4711,
            state: ProcessState::Alive,
            threads: 1,
        };
        assert_eq!(parse(7, text), Some(expected));
        assert_eq!(parse(7, ""), None);
        assert_eq!(parse(7, "7 (a) S 1"), None);
    }

    #[test]
    fn our_own_process_is_listed() {
        let me = i32::try_from(std::process::id()).unwrap();
        let found = Process::from_pid(me).unwrap();
        assert!(!found.is_gone());
        assert!(descendants(found.parent).iter().any(|it| it.pid == me));
        // One poll may miss us while other processes end.
        let listed = || with_listed_descendants(vec![found.parent]);
        let is_listed = |_| listed().iter().any(|it| it.pid == me);
        assert!((0..100).any(is_listed));
        let earlier = Process {
            started: found.started - 1,
            ..found
        };
        assert!(earlier.is_gone());
        assert!(earlier.open_handle().is_none());
    }
}

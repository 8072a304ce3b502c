//! Processes as the kernel lists them: who descends from whom, and how they are ended.
//!
//! A number names a process only together with the time it was started; every signal goes through
//! a handle that was checked against both, so no stranger who got the number later is hit.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// What every process of a command has in its environment: whose it is.
pub(super) const VARIABLE: &str = "AGENTS_CONFINED_BY";

/// One process at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) parent: i32,
    /// In clock ticks since the boot.
    pub(super) started: u64,
    pub(super) state: ProcessState,
    pub(super) threads: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProcessState {
    Alive,
    Stopped,
    /// It does nothing any more; only its status waits to be asked for.
    Dead,
}

impl Process {
    /// The process that has this number now.
    pub(super) fn from_pid(pid: i32) -> Option<Self> {
        let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
        parse(pid, &String::from_utf8_lossy(&text))
    }

    pub(super) fn is_dead(self) -> bool {
        self.state == ProcessState::Dead
    }

    /// Whether it is still there, under the same number.
    pub(super) fn is_gone(self) -> bool {
        Self::from_pid(self.pid).is_none_or(|now| now.started != self.started || now.is_dead())
    }

    /// A handle that stays its own; nothing if it is gone.
    pub(super) fn open_handle(self) -> Option<OwnedFd> {
        let handle = pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        (!self.is_gone()).then_some(handle)
    }

    /// Sends a signal; one that is gone needs none.
    pub(super) fn signal(self, signal: Signal) {
        if let Some(handle) = self.open_handle() {
            // It may go in this very moment, which is as good.
            let _ = pidfd_send_signal(&handle, signal);
        }
    }

    /// Kills it and waits until it is gone.
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

    /// What its descendants are marked with.
    pub(super) fn token(self) -> String {
        token(self.pid, self.started)
    }
}

/// Waits until the process of the handle is gone.
fn wait_until_gone(handle: &OwnedFd) -> io::Result<()> {
    loop {
        match poll(&mut [PollFd::new(handle, PollFlags::IN)], None) {
            Err(Errno::INTR) => {}
            answer => return answer.map(drop).map_err(io::Error::from),
        }
    }
}

/// What the descendants of the supervisor with this number and start are marked with.
pub(super) fn token(pid: i32, started: u64) -> String {
    format!("{pid}-{started}")
}

/// All processes of this machine that we can see.
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

/// All living processes that descend from `ancestor`.
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

/// The same for a supervisor, by the lists of children that the kernel keeps for each thread,
/// without a look at everybody else. One may be missing if others end meanwhile; where the kernel
/// has no such lists, none is.
pub(super) fn listed_descendants(ancestor: i32) -> Vec<Process> {
    // The first thread of a supervisor starts the command and gets the orphans. To look at its
    // others would leave entries in the kernel's memory that are fought for when it ends.
    let first = format!("/proc/{ancestor}/task/{ancestor}");
    children(Path::new(&first)).map_or_else(|_| descendants(ancestor), with_listed_descendants)
}

/// The living ones of these processes, and all that descends from them by the kernel's lists.
fn with_listed_descendants(mut next: Vec<i32>) -> Vec<Process> {
    let mut found = Vec::new();
    while let Some(process) = next.pop() {
        let threads = fs::read_dir(format!("/proc/{process}/task"));
        for thread in threads.into_iter().flatten().flatten() {
            // One that ended has left its children to somebody else.
            next.extend(children(&thread.path()).unwrap_or_default());
        }
        found.extend(Process::from_pid(process).filter(|it| !it.is_dead()));
    }
    found
}

/// What a thread has started and is its own still, by its folder in `/proc`.
fn children(thread: &Path) -> io::Result<Vec<i32>> {
    let list = fs::read_to_string(thread.join("children"))?;
    let words = list.split_whitespace();
    Ok(words.filter_map(|word| word.parse().ok()).collect())
}

/// Ends every process marked with this token and waits until it is gone.
pub(super) fn kill_marked(token: &str) -> io::Result<()> {
    let entry = format!("{VARIABLE}={token}").into_bytes();
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

/// The name of this boot.
pub(super) fn boot_id() -> io::Result<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(text.trim_end().to_owned())
}

/// The name of a program may hold anything; what counts is behind its last parenthesis.
fn parse(pid: i32, text: &str) -> Option<Process> {
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
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
        // One look may miss us while others end.
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

//! Limits of one command: those the kernel enforces, and those the supervisor samples.
//!
//! The kernel limits the size of each file and forbids core dumps. Memory, processes and disk space
//! are limited for the whole process tree, so the supervisor polls it and kills a command that uses
//! too much. Between two polls a command can exceed a limit, so these limits are not exact.

use std::fs;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use cleveragents_domain::AbsolutePath;
use cleveragents_ports::limits::{Limit, OverLimit};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

use super::disk_usage::DiskUsage;
use super::process_tree::{self, Process};
use crate::files::path_from_bytes;

/// Time to the first poll of the processes, and the minimum between two.
const PROCESS_INTERVAL: Duration = Duration::from_millis(50);

/// Every this many polls, all processes of the machine are scanned so that none is missed for long.
/// The other polls only follow the children of known processes, which is faster.
const FULL_SCAN_EVERY: u32 = 20;

/// Time to the first poll of disk space, and the minimum between two. A command that ends sooner
/// cannot write much.
const DISK_INTERVAL: Duration = Duration::from_secs(1);

/// After each poll the watcher sleeps for this multiple of the poll's duration, so polling uses at
/// most 5 % of one processor.
const IDLE_FACTOR: u32 = 20;

/// Resource limits of one command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessLimits {
    /// Bytes of memory of all its processes.
    pub memory: u64,
    /// Number of processes and threads.
    pub processes: u64,
    /// Maximum size in bytes of each file it writes.
    pub file_size: u64,
    /// Bytes on disk of the tree and the scratch folder.
    pub disk: u64,
}

impl Default for ProcessLimits {
    fn default() -> Self {
        Self {
            memory: 8 << 30,
            processes: 4096,
            file_size: 4 << 30,
            disk: 50 << 30,
        }
    }
}

/// The limits of a command and the folders whose disk space counts, as passed to the supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CommandLimits {
    pub(super) limits: ProcessLimits,
    pub(super) folders: Vec<AbsolutePath>,
}

/// Sets the limits that the kernel enforces on this process and all its later children.
pub(super) fn set_kernel_limits(limits: &ProcessLimits) -> io::Result<()> {
    // A core dump would put the memory of a crashed command into its tree.
    lower_limit(Resource::Core, 0)?;
    lower_limit(Resource::Fsize, limits.file_size)
}

/// Lowers a limit permanently. A limit that is already lower stays.
pub(super) fn lower_limit(resource: Resource, requested: u64) -> io::Result<()> {
    let most = getrlimit(resource).maximum;
    let limit = Some(most.map_or(requested, |most| most.min(requested)));
    setrlimit(
        resource,
        Rlimit {
            current: limit,
            maximum: limit,
        },
    )?;
    Ok(())
}

/// Polls the descendants of `supervisor` until the command is done. Returns the limit that was
/// exceeded, if any.
pub(super) fn watch_processes(
    supervisor: i32,
    limits: &ProcessLimits,
    done: &Receiver<()>,
) -> Option<OverLimit> {
    let mut looks = 0;
    poll_until(PROCESS_INTERVAL, done, || {
        looks += 1;
        let processes = match looks % FULL_SCAN_EVERY {
            0 => process_tree::descendants(supervisor),
            _ => process_tree::listed_descendants(supervisor),
        };
        let count = processes.iter().map(|it| it.threads).sum();
        if count > limits.processes {
            return Some(over_limit(Limit::Processes, limits.processes, count));
        }
        let memory = measure_memory(&processes, limits.memory);
        (memory > limits.memory).then(|| over_limit(Limit::Memory, limits.memory, memory))
    })
}

/// Polls the disk space of the command's folders until the command is done. Returns the limit that
/// was exceeded, if any.
pub(super) fn watch_disk(command: &CommandLimits, done: &Receiver<()>) -> Option<OverLimit> {
    let allowed = command.limits.disk;
    poll_until(DISK_INTERVAL, done, || {
        let mut usage = DiskUsage::default();
        for folder in &command.folders {
            usage.add(path_from_bytes(folder.as_bytes()), allowed);
        }
        (usage.bytes > allowed).then(|| over_limit(Limit::Disk, allowed, usage.bytes))
    })
}

/// Calls `check` repeatedly until it finds something or the sender of `done` is dropped.
fn poll_until(
    shortest: Duration,
    done: &Receiver<()>,
    mut check: impl FnMut() -> Option<OverLimit>,
) -> Option<OverLimit> {
    let mut pause = shortest;
    loop {
        if done.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            return None;
        }
        let begun = Instant::now();
        let found = check();
        if found.is_some() {
            return found;
        }
        pause = shortest.max(begun.elapsed() * IDLE_FACTOR);
    }
}

/// Returns the memory of processes. First counts shared pages once per process. Only if that exceeds
/// the limit, reads the proportional shares, which takes the kernel longer.
fn measure_memory(processes: &[Process], limit: u64) -> u64 {
    let resident = |process: &Process| read_amount(process, "status", "VmRSS:").unwrap_or(0);
    let total = processes.iter().map(resident).sum();
    if total <= limit {
        return total;
    }
    let share = |process: &Process| {
        let share = read_amount(process, "smaps_rollup", "Pss:");
        share.unwrap_or_else(|| resident(process))
    };
    processes.iter().map(share).sum()
}

/// Returns the bytes on one line of a `/proc` file of a process, or `None` if the process has ended.
fn read_amount(process: &Process, file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{}/{file}", process.pid)).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

fn over_limit(limit: Limit, allowed: u64, found: u64) -> OverLimit {
    OverLimit {
        limit,
        allowed,
        found: Some(found),
        path: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_memory_is_measured_both_ways() {
        let me = Process::from_pid(i32::try_from(std::process::id()).unwrap()).unwrap();
        let resident = measure_memory(&[me], u64::MAX);
        let share = measure_memory(&[me], 0);
        assert!(share > 0 && resident > 0);
        assert!(measure_memory(&[me, me], u64::MAX) > resident);
    }
}

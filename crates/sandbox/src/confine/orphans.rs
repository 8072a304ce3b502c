//! Finds processes of commands whose supervisor is dead, by properties that a process cannot drop.
//!
//! A command may clear its environment, fork twice, leave its session and folder, and close every
//! file. It cannot undo `no_new_privs`, and without privileges it cannot raise a hard limit. So it
//! gets a combination of limits that nothing else has: no core dumps, no bytes in message queues, a
//! bounded file size. Its supervisor may use message queues, which distinguishes the two. Every
//! process of a live command descends from its supervisor, which is a subreaper. A process with
//! these limits and without such an ancestor is an orphan and is killed.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, Uid, getrlimit, getuid};

use super::limits::lower_limit;
use super::process_tree::{self, Process};
use crate::account::SandboxAccount;

/// Marks this process and its children with a limit that they cannot raise. The mark is complete
/// together with the limits that the supervisor sets.
pub(super) fn mark() -> io::Result<()> {
    lower_limit(Resource::Msgqueue, 0)
}

/// Kills the processes of commands whose supervisors are dead, and waits for their end.
pub(super) fn end_orphans() -> io::Result<()> {
    if getrlimit(Resource::Msgqueue).maximum == Some(0) {
        // No process here may have message queues, so the mark distinguishes nothing.
        return Ok(());
    }
    loop {
        let found = find_orphans();
        if found.is_empty() {
            return Ok(());
        }
        for process in found {
            match process.kill_and_wait() {
                // A process that we may not signal cannot be one of ours.
                Err(error) if error.raw_os_error() == Some(Errno::PERM.raw_os_error()) => {}
                ended => ended?,
            }
        }
    }
}

fn find_orphans() -> Vec<Process> {
    let all: BTreeMap<i32, Process> = process_tree::all_processes()
        .into_iter()
        .map(|it| (it.pid, it))
        .collect();
    let confined: Vec<&Process> = all
        .values()
        .filter(|it| !it.is_dead() && is_confined(it.pid) && is_within_reach(it.pid))
        .collect();
    let has_supervisor = |process: &Process| {
        let mut parent = process.parent;
        // A chain of parents is not longer than the number of processes.
        for _ in 0..all.len() {
            if is_supervisor(parent) {
                return true;
            }
            match all.get(&parent) {
                Some(next) => parent = next.parent,
                None => return false,
            }
        }
        false
    };
    let orphans = confined.into_iter().filter(|it| !has_supervisor(it));
    orphans.copied().collect()
}

/// Returns whether the process has all limits of our commands.
fn is_confined(pid: i32) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else {
        return false;
    };
    let Ok(limits) = fs::read_to_string(format!("/proc/{pid}/limits")) else {
        return false;
    };
    has_no_new_privs(&status) && has_our_limits(&limits)
}

fn has_no_new_privs(status: &str) -> bool {
    let value = status.lines().find_map(|it| it.strip_prefix("NoNewPrivs:"));
    value.is_some_and(|value| value.trim() == "1")
}

fn has_our_limits(limits: &str) -> bool {
    let hard = |name: &str| {
        let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().nth(1)
    };
    hard("Max core file size") == Some("0")
        && hard("Max msgqueue size") == Some("0")
        && hard("Max file size").is_some_and(|it| it != "unlimited")
}

/// Returns whether the process can belong to a command that we started.
fn is_within_reach(pid: i32) -> bool {
    use std::os::unix::fs::MetadataExt;
    let owner = fs::metadata(format!("/proc/{pid}")).map(|found| found.uid());
    owner.is_ok_and(|owner| is_ours(getuid(), owner))
}

/// Returns whether a command started by `me` can have this owner: the same user, or for root the user
/// of a sandbox. Root could kill any process, and one of another user may have the same limits for
/// other reasons.
fn is_ours(me: Uid, owner: u32) -> bool {
    owner == me.as_raw() || (me.is_root() && SandboxAccount::is_sandbox_uid(owner))
}

/// Returns whether a process is a supervisor. A command can fake the name, but has our limits.
fn is_supervisor(pid: i32) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0).skip(1);
    words.next() == Some(b"__run") && words.next() == Some(b"--policy") && !is_confined(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_combination_marks_a_command() {
        let limits = |core: &str, file: &str, queue: &str| {
            format!(
                "Limit                     Soft Limit           Hard Limit           Units\n\
                 Max file size             {file}   {file}   bytes\n\
                 Max core file size        {core}   {core}   bytes\n\
                 Max msgqueue size         {queue}   {queue}   bytes\n"
            )
        };
        assert!(has_our_limits(&limits("0", "4096", "0")));
        assert!(!has_our_limits(&limits("unlimited", "4096", "0")));
        assert!(!has_our_limits(&limits("0", "unlimited", "0")));
        assert!(!has_our_limits(&limits("0", "4096", "819200")));
        assert!(has_no_new_privs("Name:\tx\nNoNewPrivs:\t1\nSeccomp:\t2\n"));
        assert!(!has_no_new_privs("NoNewPrivs:\t0\n"));
        assert!(!is_confined(i32::try_from(std::process::id()).unwrap()));
    }

    #[test]
    fn root_leaves_processes_of_other_users_alone() {
        let (root, user) = (Uid::ROOT, Uid::from_raw(1000));
        assert!(is_ours(root, 0));
        assert!(is_ours(root, 2_010_000_007));
        assert!(is_ours(root, 65_521));
        assert!(!is_ours(root, 1000));
        assert!(!is_ours(root, 65_534));
        assert!(is_ours(user, 1000));
        assert!(!is_ours(user, 0));
        assert!(!is_ours(user, 2_010_000_007));
    }
}

//! Recognises lock files that a killed git left in a user's repository.
//!
//! Git creates the lock of a ref empty and then writes the new commit into it. A killed git leaves a
//! file that does not say who created it and that blocks every later write of the ref. The file alone
//! proves nothing, because a live git may own it, so the processes of this machine are inspected.
//! Processes of other PID namespaces (a container with the same repository mounted) are not visible.

use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::repository::UserRepository;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockOwner {
    /// The lock was not created by a git process of ours.
    Foreign,
    /// A running process may have created the lock.
    Active,
    /// The git process that created the lock has ended.
    Gone,
}

/// Finds the owner of a lock that a git process of ours may have created. A lock of ours belongs to
/// this user and is not older than `since` (Unix seconds). Its git may still be running as long as a
/// process has the file open or another git works in the repository. Git processes that this process
/// started do not count: the caller holds the repository lock and knows what they do.
pub(crate) fn find_lock_owner(lock: &Path, since: i64, repository: &UserRepository) -> LockOwner {
    let Ok(found) = fs::symlink_metadata(lock) else {
        return LockOwner::Foreign;
    };
    let may_be_ours =
        // Compared with the time of our own record: a lock from before it cannot be ours.
        found.is_file() && found.uid() == geteuid().as_raw() && found.mtime() >= since;
    if !may_be_ours {
        return LockOwner::Foreign;
    }
    let is_in_use = |it: &PathBuf| has_open(it, &found) || is_git_in_repository(it, repository);
    match processes() {
        Some(all) if !all.iter().any(is_in_use) => LockOwner::Gone,
        // Without a process list nothing is known, so the lock is not touched.
        _ => LockOwner::Active,
    }
}

/// Returns the folders of all processes in `/proc`.
fn processes() -> Option<Vec<PathBuf>> {
    let entries = fs::read_dir("/proc").ok()?.flatten();
    let numbered =
        entries.filter(|entry| entry.file_name().as_bytes().iter().all(u8::is_ascii_digit));
    Some(numbered.map(|entry| entry.path()).collect())
}

/// Returns whether a process has this file open. A process that cannot be inspected belongs to
/// another user, and so would its lock.
fn has_open(process: &Path, file: &Metadata) -> bool {
    let open = fs::read_dir(process.join("fd"))
        .into_iter()
        .flatten()
        .flatten();
    open.filter_map(|it| fs::metadata(it.path()).ok())
        .any(|it| (it.dev(), it.ino()) == (file.dev(), file.ino()))
}

/// Returns whether a process is a git that works in this repository and that we did not start.
fn is_git_in_repository(process: &Path, repository: &UserRepository) -> bool {
    // Processes end while they are inspected, so an unreadable file counts as empty.
    let read = |name: &str| fs::read(process.join(name)).unwrap_or_default();
    let arguments = read("cmdline");
    let is_git = read("comm").trim_ascii_end() == b"git" && !is_child(process);
    // The daemon runs permanently and changes no ref.
    let is_monitor = contains(&arguments, b"fsmonitor--daemon");
    if !is_git || is_monitor {
        return false;
    }
    let is_named = |text: &[u8]| {
        let paths = [&repository.git_dir, &repository.common_dir];
        let mut paths = paths.iter().map(|it| it.as_os_str().as_bytes());
        paths.any(|path| contains(text, path))
    };
    let environment = read("environ");
    // A git started elsewhere names the repository in its arguments, in a variable such as
    // `GIT_DIR`, or by its working directory.
    let mut variables = environment.split(|byte| *byte == 0);
    is_named(&arguments)
        || variables.any(|it| it.starts_with(b"GIT_") && is_named(it))
        || has_cwd_in(process, repository)
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|it| it == part)
}

fn is_child(process: &Path) -> bool {
    let status = fs::read_to_string(process.join("status")).unwrap_or_default();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    parent.is_some_and(|it| it.trim() == std::process::id().to_string())
}

/// Returns whether the working directory of a process belongs to this repository.
fn has_cwd_in(process: &Path, repository: &UserRepository) -> bool {
    fs::read_link(process.join("cwd"))
        .ok()
        .and_then(|folder| UserRepository::find(repository.git(), &folder).ok())
        .is_some_and(|found| found.common_dir == repository.common_dir)
}

//! A branch that git itself keeps locked until it is moved.
//!
//! From `prepare` on, `git update-ref --stdin` has checked the branch and holds its lock, so no
//! other git can move it. Git releases the lock when it commits or when its input ends, also if
//! this process is killed. It inherits our repository lock (see `references`), so the holder of
//! that lock knows that no transaction of ours is still running.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout};

use cleveragents_ports::sandbox::{CommitMetadata, SandboxError};
use cleveragents_ports::targets::{CommitEffect, TargetError, TargetResult};
use serde::{Deserialize, Serialize};

use crate::abandoned_lock::{LockOwner, find_lock_owner};
use crate::apply::branches::{self, BranchState};
use crate::apply::ref_lock_record::RefLockRecord;
use crate::files::{is_not_found, path_from_bytes, remove};
use crate::git_dir_links;
use crate::repository::UserRepository;
use crate::user_git_command::UserGitCommand;

const COMMAND: &str = "git update-ref --stdin";

#[derive(Debug)]
pub(crate) struct RefTransaction {
    child: Child,
    /// Closed to end the transaction.
    stdin: Option<ChildStdin>,
    /// Git's responses and error messages.
    stdout: BufReader<ChildStdout>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GitExit {
    Exited,
    /// Git was killed and has left its locks.
    Killed,
}

/// A lock file of a transaction of ours, as it was when git created it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LockFile {
    /// Bytes, because a path need not be UTF-8.
    path: Vec<u8>,
    inode: u64,
    changed: (i64, i64),
}

impl RefTransaction {
    /// Locks the branch if it is at its expected commit; otherwise returns its state. The caller
    /// must hold the repository lock.
    pub(crate) fn prepare(
        repository: &UserRepository,
        ref_locks: &RefLockRecord,
        effect: &CommitEffect,
        commit_metadata: &CommitMetadata,
        lock: &File,
    ) -> TargetResult<Result<Self, BranchState>> {
        if let Some(reference) = &effect.reference {
            git_dir_links::check_ref(&repository.common_dir, reference)?;
        }
        release_leftover(ref_locks, repository, effect)?;
        // Recorded before git starts, so after a kill the next call knows that git may have left
        // locks (law 9).
        ref_locks.write(&[])?;
        let call = repository.call(UserGitCommand::UpdateRefs {
            author: commit_metadata,
        });
        let mut child = call.start_with_lock(lock)?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let (Some(stdin), Some(stdout)) = pipes else {
            return Err(transaction_error("its pipes are missing".to_owned()).into());
        };
        let mut transaction = Self {
            child,
            stdin: Some(stdin),
            stdout: BufReader::new(stdout),
        };
        // All zeros: the ref must not exist.
        let nothing = "0".repeat(effect.object_format.id_length());
        let old = effect.old.as_deref().unwrap_or(&nothing);
        let (option, name) = match &effect.reference {
            Some(reference) => ("", reference.as_str()),
            // `no-deref` moves `HEAD` itself and never a branch that was checked out meanwhile.
            None => ("option no-deref\n", "HEAD"),
        };
        let lines = format!(
            "start\n{option}update {name} {} {old}\nprepare\n",
            effect.new
        );
        match transaction.send(&lines, "prepare: ok") {
            Ok(()) => {
                // With inode and time, so that after a kill exactly these locks are removed.
                ref_locks.write(&lock_files(repository, effect))?;
                Ok(Ok(transaction))
            }
            Err(complaint) => {
                match transaction.finish() {
                    GitExit::Killed => release_leftover(ref_locks, repository, effect)?,
                    // Git has removed its own locks: any lock there now belongs to another git.
                    GitExit::Exited => ref_locks.forget()?,
                }
                match branches::branch_state(repository, effect)? {
                    BranchState::Old => Err(refusal_error(complaint)),
                    standing => Ok(Err(standing)),
                }
            }
        }
    }

    /// Moves the branch and releases its lock. If git is killed meanwhile, the branch may or may
    /// not have moved; the locks are released in both cases.
    pub(crate) fn commit(
        mut self,
        ref_locks: &RefLockRecord,
        repository: &UserRepository,
        effect: &CommitEffect,
    ) -> TargetResult<()> {
        let committed = self.send("commit\n", "commit: ok");
        match self.finish() {
            GitExit::Killed => release_leftover(ref_locks, repository, effect)?,
            GitExit::Exited => ref_locks.forget()?,
        }
        Ok(committed.map_err(transaction_error)?)
    }

    /// Closes git's input and waits for it. At the end of its input git removes its locks.
    fn finish(mut self) -> GitExit {
        drop(self.stdin.take());
        match self.child.wait() {
            // A git killed by a signal has no exit code and may have left its locks.
            Ok(status) if status.code().is_some() => GitExit::Exited,
            _ => GitExit::Killed,
        }
    }

    /// Sends some lines and reads up to the response `last`. Returns git's error message if it sends
    /// another response.
    fn send(&mut self, lines: &str, last: &str) -> Result<(), String> {
        let stdin = self.stdin.as_mut().ok_or("its input is closed")?;
        // A write error means that git ended early; its error message is read below.
        let _ = stdin.write_all(lines.as_bytes());
        let mut complaint = String::new();
        let mut line = Vec::new();
        loop {
            line.clear();
            match self.stdout.read_until(b'\n', &mut line) {
                Ok(0) => return Err(complaint.trim_end().to_owned()),
                Ok(_) => {}
                Err(error) => return Err(error.to_string()),
            }
            let line = String::from_utf8_lossy(&line);
            match line.trim_end() {
                answer if answer == last => return Ok(()),
                answer if answer.ends_with(": ok") => {}
                _ => complaint.push_str(&line),
            }
        }
    }
}

impl Drop for RefTransaction {
    fn drop(&mut self) {
        // At the end of its input git removes its locks. A killed git would leave them.
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

/// Removes the locks left by a git that was killed in a transaction of this apply. The caller must
/// hold the repository lock, which proves that this git has ended.
pub(crate) fn release_leftover(
    ref_locks: &RefLockRecord,
    repository: &UserRepository,
    effect: &CommitEffect,
) -> TargetResult<()> {
    let Some(noted) = ref_locks.read()? else {
        return Ok(());
    };
    if noted.is_empty() {
        release_unrecorded(ref_locks, repository, effect)?;
    }
    for noted in noted {
        // Inode and change time must match: another git may have locked the ref since.
        if LockFile::read(path_from_bytes(&noted.path)).as_ref() == Some(&noted) {
            remove(path_from_bytes(&noted.path))?;
        }
    }
    Ok(ref_locks.forget()?)
}

/// Removes the locks of a git that was killed together with us before its locks were recorded. The
/// branch's lock is ours if it contains our commit: no other git moves a branch to it. A git killed
/// even earlier leaves an empty lock. Fails if the git of an empty lock may still be running; the
/// record then stays for the next attempt.
fn release_unrecorded(
    ref_locks: &RefLockRecord,
    repository: &UserRepository,
    effect: &CommitEffect,
) -> TargetResult<()> {
    let locks = lock_files(repository, effect);
    let Some(branch) = locks.first() else {
        return Ok(());
    };
    let path = path_from_bytes(&branch.path);
    let content = std::fs::read(path).unwrap_or_default();
    let owner = match content.as_slice() {
        [] => find_lock_owner(path, ref_locks.written_at()?, repository),
        content if content.trim_ascii_end() == effect.new.as_bytes() => LockOwner::Gone,
        _ => LockOwner::Foreign,
    };
    match owner {
        LockOwner::Foreign => return Ok(()),
        LockOwner::Active => return Err(TargetError::Busy { lock: path.into() }),
        LockOwner::Gone => {}
    }
    // The lock of `HEAD` is empty; git creates it right after the branch's.
    let is_of_the_same_git = |lock: &&LockFile| {
        let (made, first) = (lock.changed.0, branch.changed.0);
        std::fs::read(path_from_bytes(&lock.path)).is_ok_and(|content| content.is_empty())
            && (first..=first + 1).contains(&made)
    };
    for lock in locks.iter().skip(1).filter(is_of_the_same_git) {
        remove(path_from_bytes(&lock.path))?;
    }
    Ok(remove(path)?)
}

impl LockFile {
    fn read(path: &Path) -> Option<Self> {
        let found = std::fs::symlink_metadata(path).ok()?;
        Some(Self {
            path: path.as_os_str().as_bytes().to_vec(),
            inode: found.ino(),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}

/// Returns the locks of a prepared transaction: of the branch, and of the `HEAD` on it.
fn lock_files(repository: &UserRepository, effect: &CommitEffect) -> Vec<LockFile> {
    // Each working tree has a `HEAD` of its own; all share the branches.
    let head = repository.git_dir.join("HEAD.lock");
    let branch = effect.reference.as_deref();
    let branch = branch.map(|it| repository.common_dir.join(format!("{it}.lock")));
    let paths = branch.into_iter().chain([head]);
    paths.filter_map(|it| LockFile::read(&it)).collect()
}

/// A lock of another process is temporary. Every other error contains git's own message.
fn refusal_error(complaint: String) -> TargetError {
    // Git's message quotes the path of the lock that it could not take.
    let quoted = complaint.split('\'').find(|part| part.ends_with(".lock"));
    match quoted {
        Some(lock) if !is_missing(Path::new(lock)) || complaint.contains("File exists") => {
            TargetError::Busy { lock: lock.into() }
        }
        _ => transaction_error(complaint).into(),
    }
}

fn is_missing(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_err_and(|error| is_not_found(&error))
}

fn transaction_error(complaint: String) -> SandboxError {
    let complaint = if complaint.is_empty() {
        "it ended without an answer".to_owned()
    } else {
        complaint
    };
    SandboxError::Git {
        command: COMMAND.to_owned(),
        status: "not done".to_owned(),
        stderr: complaint,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{File, TryLockError};
    use std::io::{Read, Write};
    use std::path::PathBuf;
    use std::process::Child;
    use std::thread;

    use cleveragents_ports::sandbox::ObjectFormat;

    use crate::store::PrivateStore;
    use crate::trees::tests::store;

    fn lock_file(path: PathBuf) -> File {
        let file = File::create(path).unwrap();
        file.lock().unwrap();
        file
    }

    fn start_git_with_lock(store: &PrivateStore, lock: &File) -> Child {
        let call = store.call(["cat-file", "--batch"]);
        let mut child = call.start_with_lock(lock).unwrap();
        // A response proves that the child is git, with its final set of open files.
        child.stdin.as_mut().unwrap().write_all(b"x\n").unwrap();
        let mut answer = [0; 10];
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut answer)
            .unwrap();
        assert_eq!(&answer, b"x missing\n");
        child
    }

    fn end(mut child: Child) {
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn git_holds_the_lock_as_long_as_it_lives() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder.path().join("git"), ObjectFormat::Sha1);
        let path = folder.path().join("lock");
        let lock = lock_file(path.clone());
        let child = start_git_with_lock(&store, &lock);
        drop(lock);
        let again = File::open(&path).unwrap();
        let refused = again.try_lock();
        assert!(
            matches!(refused, Err(TryLockError::WouldBlock)),
            "{refused:?}"
        );
        end(child);
        again.try_lock().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"");
    }

    /// Returns the files that the child process has open.
    #[cfg(target_os = "linux")]
    fn open_files(child: &Child) -> Vec<PathBuf> {
        let folder = format!("/proc/{}/fd", child.id());
        let files = std::fs::read_dir(folder).unwrap().flatten();
        files.filter_map(|it| it.path().read_link().ok()).collect()
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_concurrent_child_does_not_inherit_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder.path().join("git"), ObjectFormat::Sha1);
        let paths = ["one", "two"].map(|name| folder.path().join(name));
        thread::scope(|scope| {
            for own in 0..2 {
                let (store, paths) = (&store, &paths);
                scope.spawn(move || {
                    let lock = lock_file(paths[own].clone());
                    for _ in 0..100 {
                        let child = start_git_with_lock(store, &lock);
                        let open = open_files(&child);
                        assert!(open.contains(&paths[own]), "{open:?}");
                        assert!(!open.contains(&paths[1 - own]), "{open:?}");
                        end(child);
                    }
                });
            }
        });
    }
}

//! Our refs in a user's repository. A lock of ours serialises our writers of one repository; git's
//! own locks are only waited for.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cleveragents_domain::id::{ApplyId, PlanId, SandboxId};
use cleveragents_ports::sandbox::SandboxResult;

use crate::abandoned_lock::{LockOwner, find_lock_owner};
use crate::files::{Sync, io_error, is_not_found, remove, replace_with_sync};
use crate::git_dir_links;
use crate::process_lock;
use crate::repository::UserRepository;
use crate::user_git_command::UserGitCommand;

/// Protects the base of a sandbox from garbage collection. One per sandbox, because a plan may have
/// several sandboxes of one repository.
pub(crate) fn base_ref(plan: PlanId, sandbox: SandboxId) -> String {
    format!("refs/cleveragents/base/{plan}/{sandbox}")
}

/// Protects the commit that a sandbox is being moved onto, until it is the base.
pub(crate) fn next_base_ref(plan: PlanId, sandbox: SandboxId) -> String {
    format!("refs/cleveragents/base/{plan}/{sandbox}-next")
}

/// The result of a plan.
pub(crate) fn published_ref(plan: PlanId) -> String {
    format!("refs/cleveragents/plan-{plan}")
}

/// The commit of an apply, until the apply is forgotten.
pub(crate) fn apply_ref(apply: ApplyId) -> String {
    format!("refs/cleveragents/apply/{apply}")
}

/// Waits for the lock that allows writing into this repository.
pub(crate) fn lock_repository(locks: &Path, repository: &UserRepository) -> SandboxResult<File> {
    process_lock::acquire(&lock_file_path(locks, &repository.common_dir))
}

/// Returns the lock file that serialises writers of a repository or folder.
pub(crate) fn lock_file_path(locks: &Path, folder: &Path) -> PathBuf {
    let name = blake3::hash(folder.as_os_str().as_bytes());
    locks.join(format!("{}.lock", name.to_hex()))
}

/// Returns the commit that a ref points to.
pub(crate) fn read(repository: &UserRepository, name: &str) -> SandboxResult<Option<String>> {
    repository
        .call(UserGitCommand::Resolve(name))
        .optional_line()
}

/// Creates a ref that must not exist. Here and below, the caller must hold the repository lock.
pub(crate) fn create(repository: &UserRepository, name: &str, commit: &str) -> SandboxResult<()> {
    make_writable(repository, name)?;
    let command = UserGitCommand::CreateRef { name, commit };
    repository.call(command).run()?;
    Ok(())
}

pub(crate) fn set(repository: &UserRepository, name: &str, commit: &str) -> SandboxResult<()> {
    make_writable(repository, name)?;
    let command = UserGitCommand::SetRef { name, commit };
    repository.call(command).run()?;
    Ok(())
}

/// Deletes a ref under the repository lock. A ref that does not exist is not an error.
pub(crate) fn delete(locks: &Path, repository: &UserRepository, name: &str) -> SandboxResult<()> {
    let _turn = lock_repository(locks, repository)?;
    delete_locked(locks, repository, name)
}

/// Like [`delete`], for a caller that already holds the repository lock.
pub(crate) fn delete_locked(
    locks: &Path,
    repository: &UserRepository,
    name: &str,
) -> SandboxResult<()> {
    make_writable(repository, name)?;
    // To delete a ref, git locks the packed refs, which other processes lock too. The note records
    // that a lock found there may be ours.
    let note = lock_file_path(locks, &repository.common_dir).with_extension("deleting");
    match fs::metadata(&note) {
        Ok(noted) => release_packed_refs(repository, noted.mtime())?,
        Err(error) if is_not_found(&error) => {}
        Err(error) => return Err(io_error(&note)(error)),
    }
    if read(repository, name)?.is_some() {
        replace_with_sync(&note, b"", Sync::No)?;
        repository.call(UserGitCommand::DeleteRef(name)).run()?;
    }
    remove(&note)
}

/// Makes sure that a ref of ours can be written: not through a link, and without a lock that a killed
/// git left. Git waits for any other lock.
fn make_writable(repository: &UserRepository, name: &str) -> SandboxResult<()> {
    git_dir_links::check_ref(&repository.common_dir, name)?;
    let lock = repository.common_dir.join(format!("{name}.lock"));
    // Only our processes write these refs, so a lock of any age may be ours.
    match find_lock_owner(&lock, i64::MIN, repository) {
        LockOwner::Gone => remove(&lock),
        LockOwner::Foreign | LockOwner::Active => Ok(()),
    }
}

/// Removes an abandoned lock of packed refs, and the new file that git had started to write.
fn release_packed_refs(repository: &UserRepository, since: i64) -> SandboxResult<()> {
    let lock = repository.common_dir.join("packed-refs.lock");
    if find_lock_owner(&lock, since, repository) == LockOwner::Gone {
        remove(&repository.common_dir.join("packed-refs.new"))?;
        remove(&lock)?;
    }
    Ok(())
}

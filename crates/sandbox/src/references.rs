//! Our refs in a user's repository. Writers of one repository take turns by a lock of ours; git's
//! own locks are only waited for.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cleveragents_domain::id::{ApplyId, PlanId, SandboxId};
use cleveragents_engine::ports::sandbox::SandboxResult;

use crate::repository::{Repository, text};
use crate::turns;
use crate::users_command::UsersCommand;

/// Keeps the base of a sandbox from being collected. One for each sandbox, because a plan may have
/// several of one repository.
pub(crate) fn base(plan: PlanId, sandbox: SandboxId) -> String {
    format!("refs/cleveragents/base/{plan}/{sandbox}")
}

/// Keeps the commit that a sandbox is moved onto from being collected, until that is its base.
pub(crate) fn next_base(plan: PlanId, sandbox: SandboxId) -> String {
    format!("refs/cleveragents/base/{plan}/{sandbox}-next")
}

/// The result of a plan.
pub(crate) fn published(plan: PlanId) -> String {
    format!("refs/cleveragents/plan-{plan}")
}

/// The commit an apply makes, until that is forgotten.
pub(crate) fn apply(apply: ApplyId) -> String {
    format!("refs/cleveragents/apply/{apply}")
}

/// Waits for our turn to write into this repository.
pub(crate) fn hold(locks: &Path, repository: &Repository) -> SandboxResult<File> {
    turns::wait(&turn_file(locks, &repository.common_dir))
}

/// The lock by which writers of a repository or folder take turns.
pub(crate) fn turn_file(locks: &Path, folder: &Path) -> PathBuf {
    let name = blake3::hash(folder.as_os_str().as_bytes());
    locks.join(format!("{}.lock", name.to_hex()))
}

/// The commit a ref stands at.
pub(crate) fn read(repository: &Repository, name: &str) -> SandboxResult<Option<String>> {
    let ended = repository.ask(UsersCommand::Resolve(name)).end()?;
    Ok(ended.status.success().then(|| text(&ended.stdout)))
}

/// Makes a ref that must not be there yet.
pub(crate) fn create(repository: &Repository, name: &str, commit: &str) -> SandboxResult<()> {
    let command = UsersCommand::CreateRef { name, commit };
    repository.ask(command).run()?;
    Ok(())
}

pub(crate) fn set(repository: &Repository, name: &str, commit: &str) -> SandboxResult<()> {
    let command = UsersCommand::SetRef { name, commit };
    repository.ask(command).run()?;
    Ok(())
}

/// Removes a ref; one that is not there is as wanted.
pub(crate) fn delete(locks: &Path, repository: &Repository, name: &str) -> SandboxResult<()> {
    let _turn = hold(locks, repository)?;
    delete_in_turn(repository, name)
}

/// The same, for a caller whose turn it is.
pub(crate) fn delete_in_turn(repository: &Repository, name: &str) -> SandboxResult<()> {
    if read(repository, name)?.is_some() {
        repository.ask(UsersCommand::DeleteRef(name)).run()?;
    }
    Ok(())
}

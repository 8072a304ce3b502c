//! The branch an apply goes to: its name, where it stands, and moving it.

use cleveragents_engine::ports::sandbox::SandboxResult;
use cleveragents_engine::ports::targets::{CommitEffect, TargetError, TargetResult};

use crate::references;
use crate::repository::UserRepository;
use crate::user_git_command::UserGitCommand;

const HEADS: &str = "refs/heads/";

/// The full name of a branch, if it can be one here.
pub(crate) fn full_name(repository: &UserRepository, name: &str) -> TargetResult<String> {
    let refused = |reason: String| TargetError::BranchName {
        name: name.to_owned(),
        reason,
    };
    if name.starts_with('-') || name == "HEAD" || name.contains('\0') {
        return Err(refused("git does not allow it".to_owned()));
    }
    let full = format!("{HEADS}{name}");
    let checked = repository
        .call(UserGitCommand::CheckRefName(&full))
        .output()?;
    if !checked.status.success() {
        return Err(refused("git does not allow it".to_owned()));
    }
    // A branch cannot be the folder of another.
    let inside = format!("{full}/");
    let first = repository.call(UserGitCommand::FirstRef(&inside));
    let mut taken = Some(first.line()?).filter(|other| !other.is_empty());
    let slashes = name.match_indices('/').map(|(at, _)| &name[..at]);
    for around in slashes {
        let around = format!("{HEADS}{around}");
        if references::read(repository, &around)?.is_some() {
            taken = Some(around);
        }
    }
    match taken {
        None => Ok(full),
        Some(other) => {
            let other = other.strip_prefix(HEADS).unwrap_or(&other);
            Err(refused(format!("there is a branch `{other}`")))
        }
    }
}

/// What people call it.
pub(crate) fn display_name(reference: Option<&str>) -> String {
    let reference = reference.unwrap_or("HEAD");
    reference
        .strip_prefix(HEADS)
        .unwrap_or(reference)
        .to_owned()
}

/// The commit a branch, or a detached `HEAD`, stands at.
pub(crate) fn branch_commit(
    repository: &UserRepository,
    reference: Option<&str>,
) -> SandboxResult<Option<String>> {
    references::read(repository, reference.unwrap_or("HEAD"))
}

/// How a branch stands against what is to be done to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BranchState {
    Old,
    /// At the new commit or one that is built on it.
    New,
    Moved(Option<String>),
}

pub(crate) fn branch_state(
    repository: &UserRepository,
    effect: &CommitEffect,
) -> SandboxResult<BranchState> {
    let found = branch_commit(repository, effect.reference.as_deref())?;
    if found.as_ref() == Some(&effect.new) {
        return Ok(BranchState::New);
    }
    if found == effect.old {
        return Ok(BranchState::Old);
    }
    if let Some(found) = &found {
        let command = UserGitCommand::IsAncestor {
            ancestor: &effect.new,
            descendant: found,
        };
        if repository.call(command).output()?.status.success() {
            return Ok(BranchState::New);
        }
    }
    Ok(BranchState::Moved(found))
}

/// The full name of the branch `HEAD` is on; nothing if it is detached.
pub(crate) fn checked_out_branch(repository: &UserRepository) -> SandboxResult<Option<String>> {
    repository
        .call(UserGitCommand::CurrentBranch)
        .optional_line()
}

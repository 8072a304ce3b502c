//! The branch that receives a commit: its name, its current commit, and its state.

use cleveragents_ports::sandbox::SandboxResult;
use cleveragents_ports::targets::{CommitEffect, TargetError, TargetResult};

use crate::references;
use crate::repository::UserRepository;
use crate::user_git_command::UserGitCommand;

const HEADS: &str = "refs/heads/";

/// Returns the full ref name of a branch. Fails if no branch can have this name here.
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
    // Refs are paths: `a` and `a/b` cannot both be branches.
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

/// Returns the short name that users know.
pub(crate) fn display_name(reference: Option<&str>) -> String {
    let reference = reference.unwrap_or("HEAD");
    reference
        .strip_prefix(HEADS)
        .unwrap_or(reference)
        .to_owned()
}

/// Returns the commit of a branch, or of a detached `HEAD`.
pub(crate) fn branch_commit(
    repository: &UserRepository,
    reference: Option<&str>,
) -> SandboxResult<Option<String>> {
    references::read(repository, reference.unwrap_or("HEAD"))
}

/// The state of a branch relative to the commit that is to be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BranchState {
    Old,
    /// At the new commit or a descendant of it.
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
    // A commit on top of ours means that the apply was complete and the user continued.
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

/// Returns the full name of the branch that `HEAD` is on, or `None` if it is detached.
pub(crate) fn checked_out_branch(repository: &UserRepository) -> SandboxResult<Option<String>> {
    repository
        .call(UserGitCommand::CurrentBranch)
        .optional_line()
}

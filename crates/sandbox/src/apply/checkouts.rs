//! The working trees that have a branch checked out, and git operations in progress on it.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cleveragents_domain::AbsolutePath;
use cleveragents_ports::sandbox::{Checkout, SandboxError, SandboxResult};
use cleveragents_ports::targets::{Conflict, ConflictReason};

use crate::apply::branches::checked_out_branch;
use crate::files::{path_from_bytes, read_if_exists};
use crate::git::Git;
use crate::repository::{UserRepository, nul_records, trimmed_text};
use crate::user_git_command::UserGitCommand;

/// A working tree of the user.
#[derive(Debug)]
pub(crate) struct UserWorktree {
    pub(crate) repository: UserRepository,
    pub(crate) root: PathBuf,
}

impl UserWorktree {
    pub(crate) fn new(repository: UserRepository) -> SandboxResult<Self> {
        match repository.checkout.clone() {
            Checkout::At(root) => Ok(Self { repository, root }),
            Checkout::Bare => Err(SandboxError::Bare {
                path: repository.git_dir.clone(),
            }),
        }
    }

    /// Opens the working tree recorded at `root`.
    pub(crate) fn find(git: &Git, root: &AbsolutePath) -> SandboxResult<Self> {
        Self::new(UserRepository::find(git, path_from_bytes(root.as_bytes()))?)
    }

    pub(crate) fn conflict(&self, reason: ConflictReason) -> SandboxResult<Conflict> {
        Ok(Conflict {
            path: None,
            place: Some(to_absolute_path(&self.root)?),
            reason,
        })
    }
}

pub(crate) fn to_absolute_path(path: &Path) -> SandboxResult<AbsolutePath> {
    let bytes = path.as_os_str().as_bytes();
    AbsolutePath::from_bytes(bytes).map_err(|error| SandboxError::Malformed {
        what: format!("{}: {error}", path.display()),
    })
}

/// Returns every working tree that has `reference` checked out. A detached `HEAD` belongs to `own`
/// only.
pub(crate) fn find_checkouts(
    git: &Git,
    own: &UserRepository,
    reference: Option<&str>,
    conflicts: &mut Vec<Conflict>,
) -> SandboxResult<Vec<UserWorktree>> {
    let mut worktrees = Vec::new();
    if checked_out_branch(own)?.as_deref() == reference {
        worktrees.push(UserWorktree::new(own.clone())?);
    }
    let Some(reference) = reference else {
        return Ok(worktrees);
    };
    let answer = own.call(UserGitCommand::ListWorktrees).run()?;
    for listed in parse_worktree_list(&answer) {
        let is_listed = |key: &str| listed.contains_key(key);
        let branch = listed.get("branch").map(|name| trimmed_text(name));
        let Some(path) = listed.get("worktree").map(|path| path_from_bytes(path)) else {
            continue;
        };
        let is_known = worktrees.iter().any(|worktree| worktree.root == path);
        // A `prunable` working tree no longer exists; it cannot be locked and blocks nothing.
        if branch.as_deref() != Some(reference) || is_listed("prunable") || is_known {
            continue;
        }
        let worktree = if path.symlink_metadata().is_ok() {
            UserRepository::find(git, path).and_then(UserWorktree::new)
        } else {
            Err(SandboxError::NotAFolder { path: path.into() })
        };
        match worktree {
            Ok(worktree)
                if worktrees
                    .iter()
                    .any(|it| it.repository.git_dir == worktree.repository.git_dir) => {}
            // Git lists a repository with a separate working tree by its object folder.
            Ok(worktree) if worktree.repository.common_dir != own.common_dir => {}
            Ok(worktree) => worktrees.push(worktree),
            Err(SandboxError::Bare { .. }) if own.git_dir == own.common_dir => {}
            Err(SandboxError::Bare { .. } | SandboxError::NotAFolder { .. }) => {
                conflicts.push(Conflict {
                    path: None,
                    place: Some(to_absolute_path(path)?),
                    reason: ConflictReason::Missing,
                });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(worktrees)
}

/// Returns one map of fields per working tree. Fields without a value map to an empty value.
fn parse_worktree_list(answer: &[u8]) -> Vec<BTreeMap<String, Vec<u8>>> {
    let mut listed: Vec<BTreeMap<String, Vec<u8>>> = Vec::new();
    for record in nul_records(answer) {
        let at = record.iter().position(|byte| *byte == b' ');
        let (key, value) = match at {
            Some(at) => (&record[..at], &record[at + 1..]),
            None => (record, &b""[..]),
        };
        if key == b"worktree" {
            listed.push(BTreeMap::new());
        }
        if let Some(fields) = listed.last_mut() {
            fields.insert(trimmed_text(key), value.to_vec());
        }
    }
    listed
}

/// Returns a conflict for each git operation (such as a merge) that is unfinished in a working tree.
pub(crate) fn operations_in_progress(worktree: &UserWorktree) -> SandboxResult<Vec<Conflict>> {
    let mut conflicts = Vec::new();
    for (name, operation) in [
        ("rebase-merge", "rebase"),
        ("rebase-apply", "rebase"),
        ("MERGE_HEAD", "merge"),
        ("CHERRY_PICK_HEAD", "cherry-pick"),
        ("REVERT_HEAD", "revert"),
        ("BISECT_LOG", "bisect"),
    ] {
        if worktree.repository.git_dir.join(name).exists() {
            let operation = operation.to_owned();
            conflicts.push(worktree.conflict(ConflictReason::InProgress { operation })?);
        }
    }
    Ok(conflicts)
}

/// Finds rebases of the branch. While a rebase runs, git reports the branch as checked out nowhere.
pub(crate) fn find_rebases(own: &UserRepository, reference: &str) -> SandboxResult<Vec<Conflict>> {
    let mut git_dirs = vec![own.common_dir.clone()];
    if let Ok(entries) = std::fs::read_dir(own.common_dir.join("worktrees")) {
        git_dirs.extend(entries.flatten().map(|entry| entry.path()));
    }
    let mut conflicts = Vec::new();
    for git_dir in git_dirs {
        for state in ["rebase-merge", "rebase-apply"] {
            let name = read_if_exists(&git_dir.join(state).join("head-name"))?;
            if name.is_some_and(|name| trimmed_text(&name) == reference) {
                conflicts.push(Conflict {
                    path: None,
                    place: Some(to_absolute_path(&git_dir)?),
                    reason: ConflictReason::InProgress {
                        operation: "rebase".to_owned(),
                    },
                });
            }
        }
    }
    Ok(conflicts)
}

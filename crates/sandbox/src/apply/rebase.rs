//! Merges a sandbox's result with what its target has checked out now.
//!
//! The sandbox's own store sees the user's objects, so the merge is made there. Nothing that the
//! sandbox holds changes: whoever asked decides whether the sandbox is moved.

use cleveragents_domain::ResourceType;
use cleveragents_engine::ports::sandbox::{SandboxBase, SandboxError, SandboxResult, TreeId};
use cleveragents_engine::ports::targets::{
    Conflict, ConflictReason, Rebase, RebaseRequest, TargetResult,
};

use crate::apply::LocalTargets;
use crate::apply::branches;
use crate::apply::checkouts::{self, Place};
use crate::apply::prepare_commit::conflict;
use crate::apply::workbench::{self, Merge};
use crate::files::path_of;
use crate::make_git::{require_objects, top_level};
use crate::references;
use crate::repository::{Commit, Repository};

pub(crate) fn rebase(targets: &LocalTargets, request: &RebaseRequest) -> TargetResult<Rebase> {
    if request.resource_type == ResourceType::FsDirectory {
        return Ok(Rebase::Unmoved);
    }
    let resource = path_of(request.resource.as_bytes());
    if !resource.is_dir() {
        return Ok(Rebase::Blocked(vec![gone(request)]));
    }
    let repository = match Repository::find(&targets.git, resource) {
        Err(SandboxError::NotARepository { .. } | SandboxError::NotAFolder { .. }) => {
            return Ok(Rebase::Blocked(vec![gone(request)]));
        }
        found => found?,
    };
    top_level(&repository, resource)?;
    let head = repository.head()?.commit().map(str::to_owned);
    if head == request.base.commit {
        return Ok(Rebase::Unmoved);
    }
    let Some(head) = head else {
        return Ok(Rebase::Blocked(vec![no_commit(&repository, request)?]));
    };
    let in_progress = checkouts::in_progress(&Place::of(repository.clone())?)?;
    if !in_progress.is_empty() {
        return Ok(Rebase::Blocked(in_progress));
    }
    let commit = repository.commits(&[&head])?.pop().flatten();
    let commit = commit.ok_or_else(|| SandboxError::Malformed {
        what: format!("the commit {head} at HEAD cannot be read"),
    })?;
    keep(targets, &repository, request, &commit)?;
    merge(targets, &repository, request, commit)
}

fn merge(
    targets: &LocalTargets,
    repository: &Repository,
    request: &RebaseRequest,
    commit: Commit,
) -> TargetResult<Rebase> {
    let sandbox = targets.sandbox(request.sandbox)?;
    let _held = sandbox.hold()?;
    require_objects(&sandbox, repository, Some(&commit))?;
    let (old, ours, theirs) = (
        request.base.tree.files(),
        commit.tree.as_str(),
        request.tree.files(),
    );
    let merged = workbench::merge(&sandbox.store, old, ours, theirs)?;
    if let Merge::Clean(tree) = &merged {
        sandbox.store.copy_borrowed(tree, Some(&commit.id))?;
    }
    let base = SandboxBase {
        tree: TreeId::new(ours, None).map_err(SandboxError::from)?,
        commit: Some(commit.id),
    };
    Ok(match merged {
        // Empty folders are no part of a commit, so a merge with one has none.
        Merge::Clean(tree) => Rebase::Merged {
            base,
            tree: TreeId::new(&tree, None).map_err(SandboxError::from)?,
        },
        Merge::Conflicts(paths) => {
            let conflicts = paths.into_iter().map(|(path, kind)| {
                let reason = ConflictReason::Merge { kind };
                conflict(&path, reason)
            });
            let conflicts = conflicts.collect::<SandboxResult<_>>()?;
            Rebase::Conflicting { base, conflicts }
        }
    })
}

/// Keeps the commit from being collected, whatever becomes of the branch.
fn keep(
    targets: &LocalTargets,
    repository: &Repository,
    request: &RebaseRequest,
    commit: &Commit,
) -> TargetResult<()> {
    let name = references::next_base(request.plan, request.sandbox);
    let _turn = targets.turn(repository)?;
    Ok(references::set(repository, &name, &commit.id)?)
}

fn gone(request: &RebaseRequest) -> Conflict {
    Conflict {
        path: None,
        place: Some(request.resource.clone()),
        reason: ConflictReason::Gone,
    }
}

/// The branch that is checked out has no commit any more.
fn no_commit(repository: &Repository, request: &RebaseRequest) -> TargetResult<Conflict> {
    let checked_out = branches::checked_out(repository)?;
    Ok(Conflict {
        path: None,
        place: Some(request.resource.clone()),
        reason: ConflictReason::Moved {
            reference: branches::shown(checked_out.as_deref()),
            expected: request.base.commit.clone().unwrap_or_default(),
            found: "no commit".to_owned(),
        },
    })
}

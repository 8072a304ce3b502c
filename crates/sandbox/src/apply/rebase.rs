//! Merges a sandbox's result with what its target has checked out now; [`rebase_folder`] does it
//! for a folder.
//!
//! The merge runs in the sandbox's own store, which can read the user's objects. The sandbox itself
//! does not change; the caller decides whether to move it.

use cleveragents_domain::ResourceType;
use cleveragents_ports::sandbox::{SandboxBase, SandboxError, SandboxResult, TreeId};
use cleveragents_ports::targets::{
    Conflict, ConflictReason, RebaseRequest, TargetRebase, TargetResult,
};

use crate::apply::LocalTargets;
use crate::apply::apply_store::{self, TreeMerge};
use crate::apply::branches;
use crate::apply::checkouts::{self, UserWorktree};
use crate::apply::prepare_commit::path_conflict;
use crate::apply::rebase_folder;
use crate::files::path_from_bytes;
use crate::make_git::{require_objects, top_level};
use crate::references;
use crate::repository::{Commit, UserRepository};

pub(crate) fn rebase(
    targets: &LocalTargets,
    request: &RebaseRequest,
) -> TargetResult<TargetRebase> {
    if request.resource_type == ResourceType::FsDirectory {
        return rebase_folder::rebase(targets, request);
    }
    let resource = path_from_bytes(request.resource.as_bytes());
    if !resource.is_dir() {
        return Ok(TargetRebase::Blocked(vec![gone_conflict(request)]));
    }
    let repository = match UserRepository::find(&targets.git, resource) {
        Err(SandboxError::NotARepository { .. } | SandboxError::NotAFolder { .. }) => {
            return Ok(TargetRebase::Blocked(vec![gone_conflict(request)]));
        }
        found => found?,
    };
    top_level(&repository, resource)?;
    let head = repository.head()?.commit().map(str::to_owned);
    if head == request.base.commit {
        return Ok(TargetRebase::Unchanged);
    }
    let Some(head) = head else {
        return Ok(TargetRebase::Blocked(vec![no_commit_conflict(
            &repository,
            request,
        )?]));
    };
    let in_progress = checkouts::operations_in_progress(&UserWorktree::new(repository.clone())?)?;
    if !in_progress.is_empty() {
        return Ok(TargetRebase::Blocked(in_progress));
    }
    let commit = repository.commits(&[&head])?.pop().flatten();
    let commit = commit.ok_or_else(|| SandboxError::Malformed {
        what: format!("the commit {head} at HEAD cannot be read"),
    })?;
    pin_commit(targets, &repository, request, &commit)?;
    merge(targets, &repository, request, commit)
}

fn merge(
    targets: &LocalTargets,
    repository: &UserRepository,
    request: &RebaseRequest,
    commit: Commit,
) -> TargetResult<TargetRebase> {
    let sandbox = targets.open_sandbox(request.sandbox)?;
    let _held = sandbox.lock()?;
    require_objects(&sandbox, repository, Some(&commit))?;
    let (old, ours, theirs) = (
        request.base.tree.files(),
        commit.tree.as_str(),
        request.tree.files(),
    );
    let merged = apply_store::merge(&sandbox.store, old, ours, theirs)?;
    // Parts of the merge may be in commits of the user that are discarded and collected later.
    if let TreeMerge::Clean(tree) = &merged {
        sandbox.store.copy_borrowed(tree, Some(&commit.id))?;
    }
    let base = SandboxBase {
        tree: TreeId::new(ours, None).map_err(SandboxError::from)?,
        commit: Some(commit.id),
    };
    Ok(match merged {
        // Commits contain no empty folders, so the merged tree has none.
        TreeMerge::Clean(tree) => TargetRebase::Merged {
            base,
            tree: TreeId::new(&tree, None).map_err(SandboxError::from)?,
        },
        TreeMerge::Conflicts(paths) => {
            let conflicts = merge_conflicts(paths)?;
            TargetRebase::Conflicting { base, conflicts }
        }
    })
}

/// Converts the conflicts that git reports.
pub(super) fn merge_conflicts(paths: Vec<(Vec<u8>, String)>) -> SandboxResult<Vec<Conflict>> {
    let conflicts = paths.into_iter().map(|(path, kind)| {
        let reason = ConflictReason::Merge { kind };
        path_conflict(&path, reason)
    });
    conflicts.collect()
}

/// Protects the commit from garbage collection, even if the branch moves or is deleted.
fn pin_commit(
    targets: &LocalTargets,
    repository: &UserRepository,
    request: &RebaseRequest,
    commit: &Commit,
) -> TargetResult<()> {
    let name = references::next_base_ref(request.plan, request.sandbox);
    let _lock = targets.lock_repository(repository)?;
    Ok(references::set(repository, &name, &commit.id)?)
}

pub(super) fn gone_conflict(request: &RebaseRequest) -> Conflict {
    Conflict {
        path: None,
        place: Some(request.resource.clone()),
        reason: ConflictReason::Gone,
    }
}

/// The checked-out branch no longer has a commit.
fn no_commit_conflict(
    repository: &UserRepository,
    request: &RebaseRequest,
) -> TargetResult<Conflict> {
    let checked_out = branches::checked_out_branch(repository)?;
    Ok(Conflict {
        path: None,
        place: Some(request.resource.clone()),
        reason: ConflictReason::Moved {
            reference: branches::display_name(checked_out.as_deref()),
            expected: request.base.commit.clone().unwrap_or_default(),
            found: "no commit".to_owned(),
        },
    })
}

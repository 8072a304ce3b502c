//! Prepares a commit on a branch of the user, or the change of its files alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cleveragents_domain::{AbsolutePath, BaseSource, ResourcePath};
use cleveragents_ports::sandbox::{RepositoryHead, SandboxResult};
use cleveragents_ports::targets::{
    ApplyEffect, ApplyIntent, ApplyRequest, CheckoutEffect, CommitEffect, Conflict, ConflictReason,
    Destination, FilesEffect, PathChange, PrepareOutcome, RequestedChange, TargetError,
    TargetResult,
};

use crate::apply::apply_store::{self, TreeMerge, with_attributes};
use crate::apply::branches;
use crate::apply::checkouts::{self, UserWorktree, to_absolute_path};
use crate::apply::forbidden_changes::{
    FilteredPaths, SubmoduleChanges, filter_reason, find_filtered, find_forbidden,
};
use crate::apply::index::{Index, unexpandable_paths};
use crate::apply::kept_edits::{SnapshotChange, StagedTrees, stage_with_edits};
use crate::apply::path_inspector::{Modes, PathChangeState, PathContent, PathInspector};
use crate::apply::record::LocalApplyRecord;
use crate::apply::sparse;
use crate::apply::steps::ApplyStep;
use crate::apply::{LocalTargets, staging};
use crate::files::{path_from_bytes, remove, resource_path};
use crate::make_git::top_level;
use crate::repository::UserRepository;
use crate::store::PrivateStore;
use crate::{pack, references};

/// The change, and the store that has all its objects.
struct ChangeInput {
    repository: UserRepository,
    store: PrivateStore,
    /// The change is the difference between the trees `base` and `result`.
    base: String,
    result: String,
    base_commit: Option<String>,
    base_source: BaseSource,
    submodules: SubmoduleChanges,
}

/// Target of the change.
struct CommitTarget {
    reference: Option<String>,
    old: Option<String>,
    /// The parent of the new commit: `old`, or the start of a new branch.
    parent: Option<String>,
    tree: String,
}

/// A change merged onto its target.
struct FittedChange {
    new_tree: String,
    changes: Vec<PathChange>,
    filtered: FilteredPaths,
}

enum FitOutcome {
    Fits(FittedChange),
    Nothing,
    Blocked(Vec<Conflict>),
}

pub(crate) fn prepare(
    targets: &LocalTargets,
    record: &LocalApplyRecord,
    request: &ApplyRequest,
) -> TargetResult<PrepareOutcome> {
    let input = load_change_input(targets, record, request)?;
    let (repository, store) = (&input.repository, &input.store);
    let target = find_target(&input, request)?;
    if let Some(conflict) = gone_conflict(&target, request) {
        return Ok(PrepareOutcome::Blocked(vec![conflict]));
    }
    let mut fitted = match fit_change(&input, &target)? {
        FitOutcome::Fits(fitted) => fitted,
        FitOutcome::Nothing => return Ok(PrepareOutcome::Nothing),
        FitOutcome::Blocked(conflicts) => return Ok(PrepareOutcome::Blocked(conflicts)),
    };
    let reference = target.reference.as_deref();
    let (worktrees, mut conflicts) = find_worktrees(targets, repository, reference)?;
    let (old_tree, new_tree) = (target.tree.as_str(), fitted.new_tree.as_str());
    // Without a working tree only the branch moves, and no file is needed.
    if !worktrees.is_empty() {
        let kept = mark_kept_edits(&input, record, &worktrees, &mut fitted.changes)?;
        let trees = StagedTrees {
            old: old_tree,
            new: new_tree,
        };
        stage_with_edits(store, record, &mut fitted.changes, &kept, &trees)?;
        targets.reached(ApplyStep::Staged);
    }
    let old_store = with_attributes(store, &target.tree);
    let mut effects = Vec::new();
    for worktree in &worktrees {
        effects.push(inspect_worktree(
            worktree,
            &fitted,
            &old_store,
            IndexUse::Committed,
            &mut conflicts,
        )?);
    }
    if !conflicts.is_empty() {
        conflicts.sort_unstable();
        conflicts.dedup();
        return Ok(PrepareOutcome::Blocked(conflicts));
    }
    let new = NewCommit {
        parent: target.parent.as_deref(),
        tree: &fitted.new_tree,
        request,
    };
    let new = make_commit(targets, record, &input, &new)?;
    // From here on the store no longer needs the sandbox, which may be removed.
    apply_store::set_alternates(store, &[&repository.objects_dir()])?;
    let effect = CommitEffect {
        reference: target.reference,
        old: target.old,
        new,
        old_tree: target.tree,
        new_tree: fitted.new_tree,
        object_format: repository.object_format,
        checkouts: effects,
    };
    Ok(ready_outcome(
        request,
        fitted.changes,
        ApplyEffect::Commit(effect),
    ))
}

/// Marks the changes of files whose uncommitted edits the plan began with, and which still have
/// them.
fn mark_kept_edits(
    input: &ChangeInput,
    record: &LocalApplyRecord,
    worktrees: &[UserWorktree],
    changes: &mut [PathChange],
) -> SandboxResult<BTreeMap<Vec<u8>, PathChange>> {
    // The content of a file is one for all working trees, and the snapshot is of one.
    let [worktree] = worktrees else {
        return Ok(BTreeMap::new());
    };
    let is_own = worktree.repository.git_dir == input.repository.git_dir;
    if input.base_source == BaseSource::Head || !is_own {
        return Ok(BTreeMap::new());
    }
    snapshot_change(input, worktree).mark_kept_edits(&input.store, record, changes)
}

fn snapshot_change<'a>(input: &'a ChangeInput, worktree: &'a UserWorktree) -> SnapshotChange<'a> {
    SnapshotChange {
        base: &input.base,
        result: &input.result,
        root: &worktree.root,
        modes: Modes::from_settings(&worktree.repository.settings.shaping),
    }
}

/// Returns the working trees that have the branch checked out, and the operations in progress that
/// block a commit on it.
fn find_worktrees(
    targets: &LocalTargets,
    repository: &UserRepository,
    reference: Option<&str>,
) -> TargetResult<(Vec<UserWorktree>, Vec<Conflict>)> {
    let mut conflicts = Vec::new();
    let worktrees = checkouts::find_checkouts(&targets.git, repository, reference, &mut conflicts)?;
    for worktree in &worktrees {
        conflicts.extend(checkouts::operations_in_progress(worktree)?);
    }
    if let Some(reference) = reference {
        conflicts.extend(checkouts::find_rebases(repository, reference)?);
    }
    conflicts.dedup();
    Ok((worktrees, conflicts))
}

/// Changes only the files, as a commit would. Creates no commit and leaves the index alone.
pub(crate) fn prepare_worktree(
    targets: &LocalTargets,
    record: &LocalApplyRecord,
    request: &ApplyRequest,
) -> TargetResult<PrepareOutcome> {
    let input = load_change_input(targets, record, request)?;
    if input.base_source == BaseSource::Worktree
        && let Some(prepared) = prepare_on_snapshot(targets, record, request, &input)?
    {
        return Ok(prepared);
    }
    let target = find_target(&input, request)?;
    let mut fitted = match fit_change(&input, &target)? {
        FitOutcome::Fits(fitted) => fitted,
        FitOutcome::Nothing => return Ok(PrepareOutcome::Nothing),
        FitOutcome::Blocked(conflicts) => return Ok(PrepareOutcome::Blocked(conflicts)),
    };
    let (old_tree, new_tree) = (target.tree.as_str(), fitted.new_tree.as_str());
    staging::stage(
        &input.store,
        record,
        &mut fitted.changes,
        old_tree,
        new_tree,
    )?;
    targets.reached(ApplyStep::Staged);
    apply_store::set_alternates(&input.store, &[&input.repository.objects_dir()])?;
    let worktree = UserWorktree::new(input.repository)?;
    let old_store = with_attributes(&input.store, &target.tree);
    let mut conflicts = Vec::new();
    let checkout = inspect_worktree(
        &worktree,
        &fitted,
        &old_store,
        IndexUse::Untouched,
        &mut conflicts,
    )?;
    if !conflicts.is_empty() {
        return Ok(PrepareOutcome::Blocked(conflicts));
    }
    let sparse: BTreeSet<&ResourcePath> = checkout.sparse.iter().collect();
    fitted
        .changes
        .retain(|change| !sparse.contains(&change.path));
    let effect = ApplyEffect::Files(FilesEffect {
        root: to_absolute_path(&worktree.root)?,
        made: Vec::new(),
        removed: Vec::new(),
    });
    Ok(ready_outcome(request, fitted.changes, effect))
}

/// Changes the files from which the plan began, with their uncommitted edits. Neither a commit nor
/// the index matters for it. Returns `None` unless every changed file is as the plan found it.
fn prepare_on_snapshot(
    targets: &LocalTargets,
    record: &LocalApplyRecord,
    request: &ApplyRequest,
    input: &ChangeInput,
) -> TargetResult<Option<PrepareOutcome>> {
    let mut changes = apply_store::changes(&input.store, &input.base, &input.result)?;
    if changes.is_empty() {
        return Ok(None);
    }
    let trees = [&input.base, &input.result];
    let filtered = find_filtered(&input.store, &changes, trees)?;
    let forbidden = find_forbidden(&input.store, &changes, &filtered, input.submodules)?;
    if !forbidden.is_empty() {
        return Ok(Some(PrepareOutcome::Blocked(forbidden)));
    }
    for change in &mut changes {
        change.keeps_edits = true;
    }
    let worktree = UserWorktree::new(input.repository.clone())?;
    staging::stage(
        &input.store,
        record,
        &mut changes,
        &input.base,
        &input.result,
    )?;
    targets.reached(ApplyStep::Staged);
    let modes = Modes::from_settings(&worktree.repository.settings.shaping);
    let inspector = PathInspector::new(&worktree.root, modes, &changes, None)?.without_index();
    for change in &changes {
        if inspector.change_state(change)? != PathChangeState::Old {
            return Ok(None);
        }
    }
    apply_store::set_alternates(&input.store, &[&input.repository.objects_dir()])?;
    let effect = ApplyEffect::Files(FilesEffect {
        root: to_absolute_path(&worktree.root)?,
        made: Vec::new(),
        removed: Vec::new(),
    });
    Ok(Some(ready_outcome(request, changes, effect)))
}

pub(crate) fn ready_outcome(
    request: &ApplyRequest,
    changes: Vec<PathChange>,
    effect: ApplyEffect,
) -> PrepareOutcome {
    PrepareOutcome::Ready(Box::new(ApplyIntent {
        version: ApplyIntent::VERSION,
        id: request.id,
        plan: request.plan,
        resource: request.resource.clone(),
        resource_type: request.resource_type,
        destination: request.destination.clone(),
        changes,
        effect,
        commit: request.commit.clone(),
    }))
}

fn load_change_input(
    targets: &LocalTargets,
    record: &LocalApplyRecord,
    request: &ApplyRequest,
) -> TargetResult<ChangeInput> {
    let resource = path_from_bytes(request.resource.as_bytes());
    let repository = UserRepository::find(&targets.git, resource)?;
    top_level(&repository, resource)?;
    let users = repository.objects_dir();
    let make = |objects: &[&Path]| -> SandboxResult<PrivateStore> {
        let format = repository.object_format;
        apply_store::with_user_settings(
            apply_store::create(&targets.git, record, format, objects)?,
            &repository,
        )
    };
    let mut base_source = BaseSource::Head;
    let (store, base, result, base_commit) = match &request.change {
        RequestedChange::Result {
            sandbox,
            from,
            to,
            base_commit,
        } => {
            let sandbox = targets.open_sandbox(*sandbox)?;
            let objects = sandbox.store.dir.join("objects");
            base_source = sandbox.marker.base;
            let store = make(&[&users, &objects])?;
            (store, from.files(), to.files(), base_commit.clone())
        }
        RequestedChange::Reverse(applied) => {
            let forgotten = TargetError::Forgotten { id: applied.id };
            let ApplyEffect::Commit(effect) = &applied.effect else {
                return Err(forgotten);
            };
            let store = make(&[&users])?;
            let (base, result) = (effect.new_tree.as_str(), effect.old_tree.as_str());
            // Once the apply is forgotten, nothing pins its objects, and git may have collected
            // them.
            let is_empty = result == store.attributes;
            if !apply_store::has_object(&store, base)?
                || !(is_empty || apply_store::has_object(&store, result)?)
            {
                return Err(forgotten);
            }
            (store, base, result, None)
        }
    };
    let (base, result) = (base.to_owned(), result.to_owned());
    let submodules = match &request.change {
        RequestedChange::Result { .. } => SubmoduleChanges::Removal,
        RequestedChange::Reverse(_) => SubmoduleChanges::RemovalOrReturn,
    };
    Ok(ChangeInput {
        repository,
        store,
        base,
        result,
        base_commit,
        base_source,
        submodules,
    })
}

fn find_target(input: &ChangeInput, request: &ApplyRequest) -> TargetResult<CommitTarget> {
    let repository = &input.repository;
    // A reversal goes to the branch of the original apply, whichever branch is checked out now.
    let applied_to = match &request.change {
        RequestedChange::Reverse(applied) => match &applied.effect {
            ApplyEffect::Commit(effect) => effect.reference.clone(),
            _ => None,
        },
        RequestedChange::Result { .. } => None,
    };
    let (reference, old) = match (applied_to, &request.destination) {
        (Some(reference), _) => {
            let old = references::read(repository, &reference)?;
            (Some(reference), old)
        }
        (None, Destination::Branch(name)) => {
            let reference = branches::full_name(repository, name)?;
            let old = references::read(repository, &reference)?;
            (Some(reference), old)
        }
        (None, _) => match repository.head()? {
            RepositoryHead::Branch { reference, commit } => (Some(reference), Some(commit)),
            RepositoryHead::Detached { commit } => (None, Some(commit)),
            RepositoryHead::Unborn { reference } => (Some(reference), None),
        },
    };
    let is_unborn = branches::checked_out_branch(repository)? == reference;
    let parent = match &old {
        Some(old) => Some(old.clone()),
        None if is_unborn => None,
        None => input.base_commit.clone(),
    };
    let tree = match &parent {
        Some(parent) => apply_store::commit_tree(&input.store, parent)?,
        // The store takes its attributes from the empty tree.
        None => input.store.attributes.clone(),
    };
    Ok(CommitTarget {
        reference,
        old,
        parent,
        tree,
    })
}

/// A branch that no longer exists has nothing to reverse.
fn gone_conflict(target: &CommitTarget, request: &ApplyRequest) -> Option<Conflict> {
    let (RequestedChange::Reverse(applied), None) = (&request.change, &target.old) else {
        return None;
    };
    let ApplyEffect::Commit(effect) = &applied.effect else {
        return None;
    };
    Some(Conflict {
        path: None,
        place: None,
        reason: ConflictReason::Moved {
            reference: branches::display_name(target.reference.as_deref()),
            expected: effect.new.clone(),
            found: "no commit".to_owned(),
        },
    })
}

/// Merges the change onto the target and rejects forbidden changes.
fn fit_change(input: &ChangeInput, target: &CommitTarget) -> TargetResult<FitOutcome> {
    let store = &input.store;
    let merged = apply_store::merge(store, &input.base, &target.tree, &input.result)?;
    let new_tree = match merged {
        TreeMerge::Clean(tree) => tree,
        TreeMerge::Conflicts(paths) => {
            let conflicts = paths.iter().map(|(path, kind)| {
                let kind = kind.clone();
                path_conflict(path, ConflictReason::Merge { kind })
            });
            return Ok(FitOutcome::Blocked(
                conflicts.collect::<SandboxResult<_>>()?,
            ));
        }
    };
    if new_tree == target.tree {
        return Ok(FitOutcome::Nothing);
    }
    let changes = apply_store::changes(store, &target.tree, &new_tree)?;
    let filtered = find_filtered(store, &changes, [&target.tree, &new_tree])?;
    let conflicts = find_forbidden(store, &changes, &filtered, input.submodules)?;
    Ok(if conflicts.is_empty() {
        FitOutcome::Fits(FittedChange {
            new_tree,
            changes,
            filtered,
        })
    } else {
        FitOutcome::Blocked(conflicts)
    })
}

pub(crate) fn path_conflict(path: &[u8], reason: ConflictReason) -> SandboxResult<Conflict> {
    Ok(Conflict {
        path: Some(resource_path(path)?),
        place: None,
        reason,
    })
}

/// Whether the index of a working tree is updated with the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IndexUse {
    Committed,
    Untouched,
}

/// Finds index entries, on any path, that prevent the index from being updated. As in git, merges
/// must be resolved first.
fn find_unusable_entries(
    worktree: &UserWorktree,
    index: &Index,
    root: &AbsolutePath,
) -> SandboxResult<Vec<Conflict>> {
    let unmerged = index.unmerged().map(<[u8]>::to_vec);
    let unmerged = unmerged.map(|path| (path, ConflictReason::Unmerged));
    let announced = unexpandable_paths(&worktree.repository)?.into_iter();
    let announced = announced.map(|path| (path, ConflictReason::Staged));
    let conflict = |(path, reason): (Vec<u8>, ConflictReason)| {
        Ok(Conflict {
            path: Some(resource_path(&path)?),
            place: Some(root.clone()),
            reason,
        })
    };
    unmerged.chain(announced).map(conflict).collect()
}

/// Finds uncommitted work of the user on the changed paths of one working tree.
fn inspect_worktree(
    worktree: &UserWorktree,
    FittedChange {
        changes, filtered, ..
    }: &FittedChange,
    store: &PrivateStore,
    use_of_index: IndexUse,
    conflicts: &mut Vec<Conflict>,
) -> SandboxResult<CheckoutEffect> {
    let root = to_absolute_path(&worktree.root)?;
    let index = Index::read(&worktree.repository)?;
    let modes = Modes::from_settings(&worktree.repository.settings.shaping);
    let inspector = PathInspector::new(&worktree.root, modes, changes, Some(store))?;
    let inspector = match use_of_index {
        IndexUse::Committed => inspector,
        IndexUse::Untouched => inspector.without_index(),
    };
    let removed = removed_paths(changes);
    let left_out = sparse::excluded_paths(worktree, changes)?;
    let mut sparse = Vec::new();
    if use_of_index == IndexUse::Committed {
        conflicts.extend(find_unusable_entries(worktree, &index, &root)?);
    }
    for change in changes {
        let path = change.path.as_bytes();
        let obstacle = index.conflict_reason(change, &|path| removed.contains(path));
        let is_staged = !index.matches(path, change.old.as_ref());
        let is_skipped = index.is_skipped(path) || left_out.contains(&change.path);
        let reason = match obstacle {
            Some(reason) => Some(reason),
            None if is_staged => Some(ConflictReason::Staged),
            None if is_skipped && inspector.inspect(path)? == PathContent::Nothing => {
                sparse.push(change.path.clone());
                None
            }
            None => uncommitted_reason(&inspector, change)?,
        };
        let reason = reason.map(|reason| filter_reason(reason, filtered.get(path)));
        conflicts.extend(reason.map(|reason| Conflict {
            path: Some(change.path.clone()),
            place: Some(root.clone()),
            reason,
        }));
    }
    Ok(CheckoutEffect {
        root,
        git_dir: to_absolute_path(&worktree.repository.git_dir)?,
        sparse,
    })
}

pub(crate) fn removed_paths(changes: &[PathChange]) -> BTreeSet<&[u8]> {
    let removed = changes.iter().filter(|change| change.new.is_none());
    removed.map(|change| change.path.as_bytes()).collect()
}

/// Returns why a file differs from its commit. A file that already has the new content is a conflict
/// too: another program wrote it, so it must not be treated as ours.
fn uncommitted_reason(
    inspector: &PathInspector<'_>,
    change: &PathChange,
) -> SandboxResult<Option<ConflictReason>> {
    Ok(match (inspector.change_state(change)?, &change.old) {
        (PathChangeState::Old, _) => None,
        (PathChangeState::Foreign(reason), _) => Some(reason),
        (PathChangeState::New, _) if inspector.matches_both(change)? => None,
        (PathChangeState::New, None) => Some(ConflictReason::Untracked),
        (PathChangeState::New, Some(_)) => Some(ConflictReason::Changed),
    })
}

/// The commit to create for a request.
struct NewCommit<'a> {
    parent: Option<&'a str>,
    tree: &'a str,
    request: &'a ApplyRequest,
}

/// Creates the commit and copies it into the user's repository, pinned by a ref of ours.
fn make_commit(
    targets: &LocalTargets,
    record: &LocalApplyRecord,
    input: &ChangeInput,
    new: &NewCommit<'_>,
) -> TargetResult<String> {
    let (repository, store) = (&input.repository, &input.store);
    let NewCommit {
        parent,
        tree,
        request,
    } = *new;
    let signing = &repository.settings.signing;
    let commit = apply_store::commit(store, tree, parent, &request.commit, signing)?;
    targets.reached(ApplyStep::Committed);
    let mut revisions = format!("{commit}\n");
    // The user's repository has the parent and everything that it contains.
    if let Some(parent) = parent {
        revisions.push_str(&format!("^{parent}\n"));
    }
    let owner = request.id.to_string();
    let pack = pack::write(store, record.pack.packing(), &revisions, &owner)?;
    // The record precedes the pack, and the ref the release of `.keep`: at every kill the objects
    // are protected or can be withdrawn (law 9).
    let _lock = targets.lock_repository(repository)?;
    record
        .pack
        .write_keep_path(&pack.keep_file_in(repository))?;
    targets.reached(ApplyStep::PackRecorded);
    pack.install_in(repository, &owner, record.pack.time())?;
    targets.reached(ApplyStep::PackInstalled);
    references::set(repository, &references::apply_ref(request.id), &commit)?;
    targets.reached(ApplyStep::Pinned);
    record.pack.release_keep()?;
    remove(record.pack.packing())?;
    Ok(commit)
}

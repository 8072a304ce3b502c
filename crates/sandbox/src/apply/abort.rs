//! Rolls back what a stopped intent has written, path by path, each by compare-and-swap.
//!
//! A path in its old state needs nothing. A path that the intent wrote is restored, unless the commit
//! checked out there has the same content. Any other content belongs to the user: it is kept, and
//! reported as a conflict unless the checked-out commit has it.

use std::collections::BTreeSet;
use std::fs::{self, File};

use cleveragents_domain::{AbsolutePath, ResourcePath, ResourceType};
use cleveragents_ports::sandbox::{SandboxError, SandboxResult};
use cleveragents_ports::targets::{
    ApplyEffect, ApplyIntent, CheckoutEffect, CommitEffect, CommitOutcome, Conflict,
    ConflictReason, FilesEffect, MissingTargetPolicy, PatchDirection, PatchEffect, PathChange,
    PathState, TargetAbortOutcome, TargetResult,
};

use crate::apply::LocalTargets;
use crate::apply::branches::{self, BranchState};
use crate::apply::commit_branch::{CommitEntries, CommitRun, LockedWorktree};
use crate::apply::commit_files::update_empty_folders;
use crate::apply::index::Index;
use crate::apply::own_folders;
use crate::apply::path_inspector::{PathChangeState, PathInspector};
use crate::apply::path_writer::{PathWriteOutcome, PathWriter};
use crate::apply::prepare_files::{load_modes, open_store, reverse_changes};
use crate::apply::record::LocalApplyRecord;
use crate::apply::ref_transaction;
use crate::apply::staging::hash;
use crate::files::{Sync, io_error, is_not_found, path_from_bytes, remove};
use crate::repository::UserRepository;

/// Aborts the intent stored in `record`, which may be newer than `known`.
pub(crate) fn abort(
    targets: &LocalTargets,
    record: &LocalApplyRecord,
    known: &ApplyIntent,
    if_gone: MissingTargetPolicy,
) -> TargetResult<TargetAbortOutcome> {
    // Without an intent, preparation did not finish and nothing of the user's was changed.
    if !record.exists() {
        targets.remove(record, &known.resource)?;
        return Ok(TargetAbortOutcome::RolledBack);
    }
    let intent = record.intent()?;
    // A completed apply is not aborted; the caller reverses it by a commit of its own.
    if let Some(applied) = record.read_done()? {
        return Ok(TargetAbortOutcome::Done(applied));
    }
    // The user gave up a target that is gone: there is nothing left to restore.
    let is_given_up = if_gone == MissingTargetPolicy::Abandon && is_removed(&intent);
    let mut conflicts = Vec::new();
    if record.has_begun() && !is_given_up {
        conflicts = match &intent.effect {
            ApplyEffect::Commit(effect) => {
                if let Some(done) = finish_if_branch_moved(targets, record, &intent, effect)? {
                    return Ok(done);
                }
                abort_commit(targets, record, &intent, effect)?
            }
            ApplyEffect::Files(effect) => abort_files(targets, record, &intent, effect)?,
            ApplyEffect::Patch(effect) => abort_patch(record, effect)?,
        };
    }
    if conflicts.is_empty() {
        // The mark goes first: after a kill in between, the record counts as prepared, and removing
        // it again is harmless.
        record.mark_restored()?;
        targets.remove(record, &intent.resource)?;
        return Ok(TargetAbortOutcome::RolledBack);
    }
    conflicts.sort_unstable();
    conflicts.dedup();
    Ok(TargetAbortOutcome::Stopped(conflicts))
}

/// If the branch already has our commit, the apply was complete and only its record is missing.
fn finish_if_branch_moved(
    targets: &LocalTargets,
    record: &LocalApplyRecord,
    intent: &ApplyIntent,
    effect: &CommitEffect,
) -> TargetResult<Option<TargetAbortOutcome>> {
    let Ok(repository) =
        UserRepository::find(&targets.git, path_from_bytes(intent.resource.as_bytes()))
    else {
        return Ok(None);
    };
    if branches::branch_state(&repository, effect)? != BranchState::New {
        return Ok(None);
    }
    match targets.lock_and_commit(record, intent)? {
        CommitOutcome::Done(applied) => {
            record.mark_done(&applied)?;
            Ok(Some(TargetAbortOutcome::Done(applied)))
        }
        CommitOutcome::Stopped(stopped) => Ok(Some(TargetAbortOutcome::Stopped(stopped.conflicts))),
    }
}

fn abort_commit(
    targets: &LocalTargets,
    record: &LocalApplyRecord,
    intent: &ApplyIntent,
    effect: &CommitEffect,
) -> TargetResult<Vec<Conflict>> {
    let resource = path_from_bytes(intent.resource.as_bytes());
    let repository = match UserRepository::find(&targets.git, resource) {
        Ok(repository) => repository,
        Err(error) => return missing_target_conflict(error, &intent.resource),
    };
    let _lock = targets.lock_repository(&repository)?;
    // A transaction of a killed git may still hold the branch; the repository lock proves that this
    // git has ended.
    ref_transaction::release_leftover(&record.ref_locks, &repository, effect)?;
    let run = CommitRun {
        targets,
        record,
        intent,
        effect,
        repository,
    };
    let mut conflicts = Vec::new();
    for checkout in &effect.checkouts {
        // A removed working tree contains nothing of ours.
        if !path_from_bytes(checkout.git_dir.as_bytes()).exists() {
            continue;
        }
        match run.lock_index(checkout)? {
            Ok(locked) => conflicts.extend(abort_worktree(&run, &locked, checkout)?),
            Err(conflict) => conflicts.push(conflict),
        }
    }
    Ok(conflicts)
}

/// Rolls back files and index entries of one working tree.
fn abort_worktree(
    run: &CommitRun<'_>,
    locked: &LockedWorktree,
    checkout: &CheckoutEffect,
) -> SandboxResult<Vec<Conflict>> {
    let changes = reverse_changes(&run.intent.changes);
    // The branch may have moved since. What the checked-out commit contains belongs to the user and
    // is not reversed.
    let head = branches::branch_commit(&locked.worktree.repository, None)?;
    let tip = run.entries_of(head.as_deref())?;
    let store = run.store(&run.effect.new_tree);
    let inspector = run.inspector(locked, &changes, &store)?;
    let watcher = run.targets.watcher.as_ref();
    let placer = PathWriter::new(&inspector, &run.record.old_files(), run.intent.id, watcher)?
        .with_own_folders(own_folders::load(run.record, &checkout.root)?);
    let sparse: BTreeSet<&ResourcePath> = checkout.sparse.iter().collect();
    let skipped = |change: &PathChange| sparse.contains(&change.path);
    let conflicts = restore_all_paths(&placer, &changes, &skipped, &checkout.root, Some(&tip))?;
    let index = Index::read(&locked.worktree.repository)?;
    let ours = changes.iter().filter(|change| {
        index.matches(change.path.as_bytes(), change.old.as_ref())
            && !has_entry(&tip, change, change.old.as_ref())
            && !index.matches(change.path.as_bytes(), change.new.as_ref())
    });
    let entries = ours.map(|change| (&change.path, change.new.as_ref()));
    run.edit_index(locked, &index, entries.collect())?;
    Ok(conflicts)
}

/// Restores every path that we wrote. Removals come first because a file may have become a folder.
fn restore_all_paths(
    placer: &PathWriter<'_>,
    changes: &[PathChange],
    skipped: &dyn Fn(&PathChange) -> bool,
    root: &AbsolutePath,
    tip: Option<&CommitEntries>,
) -> SandboxResult<Vec<Conflict>> {
    let numbered = || {
        let all = changes.iter().enumerate();
        all.filter(|(_, change)| !skipped(change))
    };
    let removals = numbered().filter(|(_, change)| change.new.is_none());
    let additions = numbered().filter(|(_, change)| change.new.is_some());
    let mut conflicts = Vec::new();
    for (number, change) in removals.chain(additions) {
        let reason = match placer.clean_up_path(number, change)? {
            Some(reason) => Some(reason),
            None => restore_path(placer, number, change, tip)?,
        };
        conflicts.extend(reason.map(|reason| Conflict {
            path: Some(change.path.clone()),
            place: Some(root.clone()),
            reason,
        }));
    }
    Ok(conflicts)
}

/// Restores one path, or returns why that is not possible.
fn restore_path(
    placer: &PathWriter<'_>,
    number: usize,
    change: &PathChange,
    tip: Option<&CommitEntries>,
) -> SandboxResult<Option<ConflictReason>> {
    let is_the_tips = |state| tip.is_some_and(|tip| has_entry(tip, change, state));
    let foreign = match placer.inspector.change_state(change)? {
        PathChangeState::New => {
            if change.new.is_none() {
                placer.remove_own_parents(change.path.as_bytes());
            }
            return Ok(None);
        }
        PathChangeState::Old if is_the_tips(change.old.as_ref()) => return Ok(None),
        PathChangeState::Old => match placer.write_path(number, change, Sync::Yes)? {
            PathWriteOutcome::Done => return Ok(None),
            PathWriteOutcome::Conflict(reason) => reason,
        },
        PathChangeState::Foreign(reason) => reason,
    };
    let Some(tip) = tip else {
        return Ok(Some(foreign));
    };
    Ok((!matches_commit(placer.inspector, change, tip)?).then_some(foreign))
}

/// Returns whether the commit has this state at the changed path.
fn has_entry(tip: &CommitEntries, change: &PathChange, state: Option<&PathState>) -> bool {
    let entry = tip.get(change.path.as_bytes());
    entry.map(|(mode, object)| (*mode, object.as_str()))
        == state.map(|it| (it.mode, it.object.as_str()))
}

/// Returns whether the file at the changed path is the one in the commit.
fn matches_commit(
    inspector: &PathInspector<'_>,
    change: &PathChange,
    tip: &CommitEntries,
) -> SandboxResult<bool> {
    let path = change.path.as_bytes();
    let found = inspector.inspect(path)?;
    let Some((mode, object)) = tip.get(path) else {
        return Ok(inspector.matches(None, &found));
    };
    let theirs = PathChange {
        path: change.path.clone(),
        old: Some(PathState {
            mode: *mode,
            object: object.clone(),
            content: None,
        }),
        new: None,
        keeps_edits: false,
    };
    inspector.is_old(&theirs, &found, path)
}

fn abort_files(
    targets: &LocalTargets,
    record: &LocalApplyRecord,
    intent: &ApplyIntent,
    effect: &FilesEffect,
) -> TargetResult<Vec<Conflict>> {
    let root = path_from_bytes(effect.root.as_bytes());
    if !root.is_dir() {
        let path = root.to_owned();
        return missing_target_conflict(SandboxError::NotAFolder { path }, &effect.root);
    }
    let _lock = match intent.resource_type {
        ResourceType::FsDirectory => targets.lock_folder(root)?,
        ResourceType::GitCheckout => {
            targets.lock_repository(&UserRepository::find(&targets.git, root)?)?
        }
    };
    let changes = reverse_changes(&intent.changes);
    let modes = load_modes(targets, intent)?;
    let store = open_store(targets, record, intent)?;
    let inspector = PathInspector::new(root, modes, &changes, store.as_ref())?.without_index();
    let watcher = targets.watcher.as_ref();
    let placer = PathWriter::new(&inspector, &record.old_files(), intent.id, watcher)?
        .with_own_folders(own_folders::load(record, &effect.root)?);
    let mut conflicts = restore_all_paths(&placer, &changes, &|_| false, &effect.root, None)?;
    if conflicts.is_empty() {
        let folders = FilesEffect {
            root: effect.root.clone(),
            made: effect.removed.clone(),
            removed: effect.made.clone(),
        };
        conflicts = update_empty_folders(root, &folders)?;
    }
    Ok(conflicts)
}

/// Removes the patch that was written. A file with other content is not ours and stays.
fn abort_patch(record: &LocalApplyRecord, effect: &PatchEffect) -> TargetResult<Vec<Conflict>> {
    let path = path_from_bytes(effect.file.as_bytes());
    if let Some(folder) = path.parent() {
        // The temporary patch is ours alone, so it needs no comparison.
        remove(&folder.join(format!(".agents-{}-patch", record.id)))?;
    }
    let is_file = match fs::symlink_metadata(path) {
        Ok(found) => found.is_file(),
        Err(error) if is_not_found(&error) => false,
        Err(error) => return Err(io_error(path)(error).into()),
    };
    if is_file && effect.direction == PatchDirection::Write {
        let found = File::open(path).and_then(hash).map_err(io_error(path))?;
        if found == effect.content {
            remove(path)?;
        }
    }
    Ok(Vec::new())
}

/// Returns whether the repository or folder that the intent changes was removed.
fn is_removed(intent: &ApplyIntent) -> bool {
    let root = match &intent.effect {
        ApplyEffect::Commit(_) => &intent.resource,
        ApplyEffect::Files(effect) => &effect.root,
        ApplyEffect::Patch(_) => return false,
    };
    fs::symlink_metadata(path_from_bytes(root.as_bytes())).is_err_and(|error| is_not_found(&error))
}

/// Returns a conflict if the target cannot be read, and every other error unchanged.
fn missing_target_conflict(
    error: SandboxError,
    root: &AbsolutePath,
) -> TargetResult<Vec<Conflict>> {
    match error {
        SandboxError::NotARepository { .. }
        | SandboxError::NotAFolder { .. }
        | SandboxError::Io { .. } => Ok(vec![Conflict {
            path: None,
            place: Some(root.clone()),
            reason: ConflictReason::Missing,
        }]),
        error => Err(error.into()),
    }
}

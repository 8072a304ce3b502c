//! Prepares changes of a folder's files, and reversals of file changes anywhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use cleveragents_domain::{ResourcePath, ResourceType};
use cleveragents_ports::sandbox::{ObjectFormat, SandboxError, SandboxResult};
use cleveragents_ports::stop::StopSignal;
use cleveragents_ports::targets::{
    ApplyEffect, ApplyIntent, ApplyRequest, Conflict, ConflictReason, FilesEffect, PathChange,
    PrepareOutcome, RequestedChange, TargetError, TargetResult,
};

use crate::apply::checkouts::to_absolute_path;
use crate::apply::path_inspector::{Modes, PathChangeState, PathInspector};
use crate::apply::prepare_commit::ready_outcome;
use crate::apply::record::LocalApplyRecord;
use crate::apply::steps::ApplyStep;
use crate::apply::{LocalTargets, apply_store, staging};
use crate::files::{io_error, path_from_bytes, remove, resource_path};
use crate::private_dir::PrivateGitDir;
use crate::repository::UserRepository;
use crate::store::{ObjectReader, PrivateStore};

/// Changes to a folder are not merged: each changed file must be as the plan found it.
pub(crate) fn prepare(
    targets: &LocalTargets,
    record: &LocalApplyRecord,
    request: &ApplyRequest,
) -> TargetResult<PrepareOutcome> {
    let RequestedChange::Result {
        sandbox, from, to, ..
    } = &request.change
    else {
        return Err(TargetError::Forgotten { id: request.id });
    };
    let resource = path_from_bytes(request.resource.as_bytes());
    let root = resource.canonicalize().map_err(io_error(resource))?;
    if !root.is_dir() {
        return Err(SandboxError::NotAFolder { path: root }.into());
    }
    let sandbox = targets.open_sandbox(*sandbox)?;
    let objects = sandbox.store.dir.join("objects");
    let store = apply_store::create(&targets.git, record, ObjectFormat::Sha1, &[&objects])?;
    let mut changes = apply_store::changes(&store, from.files(), to.files())?;
    let nothing = store.attributes.clone();
    staging::stage(&store, record, &mut changes, &nothing, &nothing)?;
    targets.reached(ApplyStep::Staged);
    let (before, after) = (
        store.entries_of(from)?.empty_directories,
        store.entries_of(to)?.empty_directories,
    );
    let is_folder = |path: &[u8]| is_folder(&root, path);
    let paths = |paths: Vec<&Vec<u8>>| -> SandboxResult<Vec<ResourcePath>> {
        paths.into_iter().map(|path| resource_path(path)).collect()
    };
    // A folder that the change empties is made by it, although it is there now.
    let is_empty = |path: &[u8]| is_folder(path) && is_empty_folder(&root, path);
    let made = after.difference(&before).filter(|path| !is_empty(path));
    let removed = before.difference(&after).filter(|path| is_folder(path));
    let effect = FilesEffect {
        root: to_absolute_path(&root)?,
        made: paths(made.collect())?,
        removed: paths(removed.collect())?,
    };
    // The prepared files are complete, so their objects are not needed again.
    remove(&record.store())?;
    let modes = Modes::from_settings(&[]);
    // Undoing the apply must leave these paths.
    drop_new_paths(&root, modes, &mut changes)?;
    finish_prepare(request, changes, effect, modes, ConflictReason::Edited)
}

/// Drops the paths that already have their new content: they are not ours, and a change of them
/// would be a conflict.
fn drop_new_paths(root: &Path, modes: Modes, changes: &mut Vec<PathChange>) -> SandboxResult<()> {
    let inspector = PathInspector::new(root, modes, changes, None)?.without_index();
    let done: BTreeSet<ResourcePath> = new_paths(&inspector, changes)?.into_iter().collect();
    drop(inspector);
    changes.retain(|change| !done.contains(&change.path));
    Ok(())
}

/// Returns the paths that already have their new state and no longer the old one.
pub(crate) fn new_paths(
    inspector: &PathInspector<'_>,
    changes: &[PathChange],
) -> SandboxResult<Vec<ResourcePath>> {
    let mut found = Vec::new();
    for change in changes {
        let is_new = inspector.change_state(change)? == PathChangeState::New;
        if is_new && !inspector.matches_both(change)? {
            found.push(change.path.clone());
        }
    }
    Ok(found)
}

/// Whether there is a folder at this path below `root`.
fn is_folder(root: &Path, path: &[u8]) -> bool {
    let found = root.join(path_from_bytes(path)).symlink_metadata();
    found.is_ok_and(|found| found.is_dir())
}

fn is_empty_folder(root: &Path, path: &[u8]) -> bool {
    let entries = fs::read_dir(root.join(path_from_bytes(path)));
    entries.is_ok_and(|mut entries| entries.next().is_none())
}

/// Restores files from the copies that were kept when they were written.
pub(crate) fn reverse(
    targets: &LocalTargets,
    record: &LocalApplyRecord,
    request: &ApplyRequest,
    applied: &ApplyIntent,
) -> TargetResult<PrepareOutcome> {
    let forgotten = TargetError::Forgotten { id: applied.id };
    let ApplyEffect::Files(effect) = &applied.effect else {
        return Err(forgotten);
    };
    let source = LocalApplyRecord::new(&targets.applies, applied.id);
    if !source.exists() {
        return Err(forgotten);
    }
    let root = path_from_bytes(effect.root.as_bytes());
    if !root.is_dir() {
        let path = root.to_owned();
        return Err(SandboxError::NotAFolder { path }.into());
    }
    staging::stage_reversed(&source, record)?;
    targets.reached(ApplyStep::Staged);
    let mut changes = reverse_changes(&applied.changes);
    let effect = FilesEffect {
        root: effect.root.clone(),
        made: effect.removed.clone(),
        removed: effect.made.clone(),
    };
    let modes = load_modes(targets, applied)?;
    // The user has undone these by hand. What was staged for them is not used.
    drop_new_paths(root, modes, &mut changes)?;
    finish_prepare(request, changes, effect, modes, ConflictReason::Changed)
}

/// Swaps the old and the new state of each change.
pub(crate) fn reverse_changes(changes: &[PathChange]) -> Vec<PathChange> {
    let changes = changes.iter().map(|change| PathChange {
        path: change.path.clone(),
        old: change.new.clone(),
        new: change.old.clone(),
        keeps_edits: change.keeps_edits,
    });
    changes.collect()
}

fn finish_prepare(
    request: &ApplyRequest,
    changes: Vec<PathChange>,
    effect: FilesEffect,
    modes: Modes,
    edited: ConflictReason,
) -> TargetResult<PrepareOutcome> {
    let root = path_from_bytes(effect.root.as_bytes());
    let (conflicts, is_done) = find_conflicts(root, modes, &changes, &edited)?;
    if !conflicts.is_empty() {
        let conflicts = conflicts.into_iter().map(|(path, reason)| Conflict {
            path: Some(path),
            place: Some(effect.root.clone()),
            reason,
        });
        return Ok(PrepareOutcome::Blocked(conflicts.collect()));
    }
    let is_folder = |path: &ResourcePath| is_folder(root, path.as_bytes());
    let folders_are_done =
        effect.made.iter().all(is_folder) && !effect.removed.iter().any(is_folder);
    if is_done && folders_are_done {
        Ok(PrepareOutcome::Nothing)
    } else {
        Ok(ready_outcome(request, changes, ApplyEffect::Files(effect)))
    }
}

type PathReasons = Vec<(ResourcePath, ConflictReason)>;

/// Returns the conflicts, and whether everything already has its new state.
fn find_conflicts(
    root: &Path,
    modes: Modes,
    changes: &[PathChange],
    edited: &ConflictReason,
) -> SandboxResult<(PathReasons, bool)> {
    let inspector = PathInspector::new(root, modes, changes, None)?.without_index();
    let (mut conflicts, mut is_done) = (Vec::new(), true);
    for change in changes {
        let reason = match inspector.change_state(change)? {
            PathChangeState::New => continue,
            PathChangeState::Old => {
                is_done = false;
                continue;
            }
            PathChangeState::Foreign(ConflictReason::Changed) => edited.clone(),
            // Without git a new file is a change of the folder like any other.
            PathChangeState::Foreign(ConflictReason::Untracked)
                if *edited == ConflictReason::Edited =>
            {
                edited.clone()
            }
            PathChangeState::Foreign(reason) => reason,
        };
        conflicts.push((change.path.clone(), reason));
    }
    Ok((conflicts, is_done))
}

/// Returns which parts of file modes are compared at the target.
pub(crate) fn load_modes(targets: &LocalTargets, intent: &ApplyIntent) -> SandboxResult<Modes> {
    match intent.resource_type {
        ResourceType::FsDirectory => Ok(Modes::from_settings(&[])),
        ResourceType::GitCheckout => {
            let resource = path_from_bytes(intent.resource.as_bytes());
            let repository = UserRepository::find(&targets.git, resource)?;
            Ok(Modes::from_settings(&repository.settings.shaping))
        }
    }
}

/// Opens the store in which the changes of a working tree were computed, if it still exists.
pub(crate) fn open_store(
    targets: &LocalTargets,
    record: &LocalApplyRecord,
    intent: &ApplyIntent,
) -> SandboxResult<Option<PrivateStore>> {
    if intent.resource_type == ResourceType::FsDirectory || !record.store().is_dir() {
        return Ok(None);
    }
    let resource = path_from_bytes(intent.resource.as_bytes());
    let repository = UserRepository::find(&targets.git, resource)?;
    let head = repository.head()?;
    let mut store = PrivateStore {
        git: targets.git.clone(),
        dir: PrivateGitDir::new(record.store()),
        format: repository.object_format,
        shaping: repository.settings.shaping.clone(),
        attributes: String::new(),
        reader: ObjectReader::default(),
        stop: StopSignal::new(),
    };
    store.attributes = match head.commit() {
        Some(commit) => apply_store::commit_tree(&store, commit)?,
        None => store.empty_tree()?,
    };
    Ok(Some(store))
}

//! Takes back what an intent that stopped has written, path by path and each by compare-and-swap.
//!
//! A path that is as before is done. A path that is as the intent made it is put back, unless the
//! commit that is checked out there has it so too. Any other content is somebody else's: it is
//! left alone, and listed unless it is what the checked-out commit has.

use std::collections::BTreeSet;
use std::fs::{self, File};

use cleveragents_domain::{AbsolutePath, ResourcePath, ResourceType};
use cleveragents_engine::ports::sandbox::{SandboxError, SandboxResult};
use cleveragents_engine::ports::targets::{
    Aborted, ApplyIntent, Carried, CheckoutEffect, CommitEffect, Conflict, ConflictReason, Effect,
    FilesEffect, IfGone, PatchDirection, PatchEffect, PathChange, PathState, TargetResult,
};

use crate::apply::LocalTargets;
use crate::apply::branches::{self, BranchStanding};
use crate::apply::carry_commit::{Entries, Run, Site};
use crate::apply::carry_files::settle_folders;
use crate::apply::index::Index;
use crate::apply::place::{Placed, Placer};
use crate::apply::prepare_files::{modes_of, reversed, store_of};
use crate::apply::record::Record;
use crate::apply::ref_transaction;
use crate::apply::staging::hash;
use crate::apply::standing::{Eye, Standing};
use crate::files::{Sync, failed, is_absent, path_of, remove};
use crate::repository::Repository;

/// Aborts the intent that is kept in `record`, which may be newer than `known`.
pub(crate) fn abort(
    targets: &LocalTargets,
    record: &Record,
    known: &ApplyIntent,
    if_gone: IfGone,
) -> TargetResult<Aborted> {
    if !record.is_there() {
        targets.remove(record, &known.resource)?;
        return Ok(Aborted::TakenBack);
    }
    let intent = record.intent()?;
    if let Some(applied) = record.done()? {
        return Ok(Aborted::Done(applied));
    }
    let is_given_up = if_gone == IfGone::GiveUp && is_removed(&intent);
    let mut conflicts = Vec::new();
    if record.has_begun() && !is_given_up {
        conflicts = match &intent.effect {
            Effect::Commit(effect) => {
                if let Some(done) = finish_if_moved(targets, record, &intent, effect)? {
                    return Ok(done);
                }
                take_back_commit(targets, record, &intent, effect)?
            }
            Effect::Files(effect) => take_back_files(targets, record, &intent, effect)?,
            Effect::Patch(effect) => take_back_patch(record, effect)?,
        };
    }
    if conflicts.is_empty() {
        record.note_put_back()?;
        targets.remove(record, &intent.resource)?;
        return Ok(Aborted::TakenBack);
    }
    conflicts.sort_unstable();
    conflicts.dedup();
    Ok(Aborted::Stopped(conflicts))
}

/// If the branch has our commit, all was done and only not noted.
fn finish_if_moved(
    targets: &LocalTargets,
    record: &Record,
    intent: &ApplyIntent,
    effect: &CommitEffect,
) -> TargetResult<Option<Aborted>> {
    let Ok(repository) = Repository::find(&targets.git, path_of(intent.resource.as_bytes())) else {
        return Ok(None);
    };
    if branches::standing(&repository, effect)? != BranchStanding::New {
        return Ok(None);
    }
    match targets.carry_out_in_turn(record, intent)? {
        Carried::Done(applied) => {
            record.note_done(&applied)?;
            Ok(Some(Aborted::Done(applied)))
        }
        Carried::Stopped(stopped) => Ok(Some(Aborted::Stopped(stopped.conflicts))),
    }
}

fn take_back_commit(
    targets: &LocalTargets,
    record: &Record,
    intent: &ApplyIntent,
    effect: &CommitEffect,
) -> TargetResult<Vec<Conflict>> {
    let resource = path_of(intent.resource.as_bytes());
    let repository = match Repository::find(&targets.git, resource) {
        Ok(repository) => repository,
        Err(error) => return missing(error, &intent.resource),
    };
    let _turn = targets.turn(&repository)?;
    ref_transaction::release_left(record, &repository, effect)?;
    let run = Run {
        targets,
        record,
        intent,
        effect,
        repository,
    };
    let mut conflicts = Vec::new();
    for checkout in &effect.checkouts {
        // A working tree that was removed has nothing of ours.
        if !path_of(checkout.git_dir.as_bytes()).exists() {
            continue;
        }
        match run.lock_place(checkout)? {
            Ok(site) => conflicts.extend(take_back_in(&run, &site, checkout)?),
            Err(conflict) => conflicts.push(conflict),
        }
    }
    Ok(conflicts)
}

/// Takes back files and index entries of one working tree.
fn take_back_in(
    run: &Run<'_>,
    site: &Site,
    checkout: &CheckoutEffect,
) -> SandboxResult<Vec<Conflict>> {
    let changes = reversed(&run.intent.changes);
    let head = branches::stands_at(&site.place.repository, None)?;
    let tip = run.entries_of(head.as_deref())?;
    let store = run.store(&run.effect.new_tree);
    let eye = run.eye(site, &changes, &store)?;
    let watcher = run.targets.watcher.as_ref();
    let placer = Placer::new(&eye, &run.record.old_files(), run.intent.id, watcher)?;
    let sparse: BTreeSet<&ResourcePath> = checkout.sparse.iter().collect();
    let skipped = |change: &PathChange| sparse.contains(&change.path);
    let conflicts = put_all_back(&placer, &changes, &skipped, &checkout.root, Some(&tip))?;
    let index = Index::read(&site.place.repository)?;
    let ours = changes.iter().filter(|change| {
        index.is(change.path.as_bytes(), change.old.as_ref())
            && !is_entry(&tip, change, change.old.as_ref())
            && !index.is(change.path.as_bytes(), change.new.as_ref())
    });
    let entries = ours.map(|change| (&change.path, change.new.as_ref()));
    run.edit_index(site, &index, entries.collect())?;
    Ok(conflicts)
}

/// Puts every path back that is ours; what goes first, because a file may have become a folder.
fn put_all_back(
    placer: &Placer<'_>,
    changes: &[PathChange],
    skipped: &dyn Fn(&PathChange) -> bool,
    place: &AbsolutePath,
    tip: Option<&Entries>,
) -> SandboxResult<Vec<Conflict>> {
    let numbered = || {
        let all = changes.iter().enumerate();
        all.filter(|(_, change)| !skipped(change))
    };
    let going = numbered().filter(|(_, change)| change.new.is_none());
    let coming = numbered().filter(|(_, change)| change.new.is_some());
    let mut conflicts = Vec::new();
    for (number, change) in going.chain(coming) {
        let reason = match placer.settle(number, change)? {
            Some(reason) => Some(reason),
            None => put_back(placer, number, change, tip)?,
        };
        conflicts.extend(reason.map(|reason| Conflict {
            path: Some(change.path.clone()),
            place: Some(place.clone()),
            reason,
        }));
    }
    Ok(conflicts)
}

/// Puts one path back; why it cannot be.
fn put_back(
    placer: &Placer<'_>,
    number: usize,
    change: &PathChange,
    tip: Option<&Entries>,
) -> SandboxResult<Option<ConflictReason>> {
    let is_the_tips = |state| tip.is_some_and(|tip| is_entry(tip, change, state));
    let foreign = match placer.eye.standing(change)? {
        Standing::New => return Ok(None),
        Standing::Old if is_the_tips(change.old.as_ref()) => return Ok(None),
        Standing::Old => match placer.put(number, change, Sync::Yes)? {
            Placed::Done => return Ok(None),
            Placed::Foreign(reason) => reason,
        },
        Standing::Foreign(reason) => reason,
    };
    let Some(tip) = tip else {
        return Ok(Some(foreign));
    };
    Ok((!is_as_in(placer.eye, change, tip)?).then_some(foreign))
}

/// Whether a commit has this state of a changed path.
fn is_entry(tip: &Entries, change: &PathChange, state: Option<&PathState>) -> bool {
    let entry = tip.get(change.path.as_bytes());
    entry.map(|(mode, object)| (*mode, object.as_str()))
        == state.map(|it| (it.mode, it.object.as_str()))
}

/// Whether the file at a changed path is what a commit has there.
fn is_as_in(eye: &Eye<'_>, change: &PathChange, tip: &Entries) -> SandboxResult<bool> {
    let path = change.path.as_bytes();
    let found = eye.look(path)?;
    let Some((mode, object)) = tip.get(path) else {
        return Ok(eye.is(None, &found));
    };
    let theirs = PathChange {
        path: change.path.clone(),
        old: Some(PathState {
            mode: *mode,
            object: object.clone(),
            content: None,
        }),
        new: None,
    };
    eye.is_old(&theirs, &found, path)
}

fn take_back_files(
    targets: &LocalTargets,
    record: &Record,
    intent: &ApplyIntent,
    effect: &FilesEffect,
) -> TargetResult<Vec<Conflict>> {
    let root = path_of(effect.root.as_bytes());
    if !root.is_dir() {
        let path = root.to_owned();
        return missing(SandboxError::NotAFolder { path }, &effect.root);
    }
    let _turn = match intent.resource_type {
        ResourceType::FsDirectory => targets.turn_in_folder(root)?,
        ResourceType::GitCheckout => targets.turn(&Repository::find(&targets.git, root)?)?,
    };
    let changes = reversed(&intent.changes);
    let modes = modes_of(targets, intent)?;
    let store = store_of(targets, record, intent)?;
    let eye = Eye::on(root, modes, &changes, store.as_ref())?.without_index();
    let watcher = targets.watcher.as_ref();
    let placer = Placer::new(&eye, &record.old_files(), intent.id, watcher)?;
    let mut conflicts = put_all_back(&placer, &changes, &|_| false, &effect.root, None)?;
    if conflicts.is_empty() {
        let folders = FilesEffect {
            root: effect.root.clone(),
            made: effect.removed.clone(),
            removed: effect.made.clone(),
        };
        conflicts = settle_folders(root, &folders)?;
    }
    Ok(conflicts)
}

/// Removes the patch that was written; another file in its place is not ours.
fn take_back_patch(record: &Record, effect: &PatchEffect) -> TargetResult<Vec<Conflict>> {
    let path = path_of(effect.file.as_bytes());
    if let Some(folder) = path.parent() {
        remove(&folder.join(format!(".agents-{}-patch", record.id)))?;
    }
    let is_file = match fs::symlink_metadata(path) {
        Ok(found) => found.is_file(),
        Err(error) if is_absent(&error) => false,
        Err(error) => return Err(failed(path)(error).into()),
    };
    if is_file && effect.direction == PatchDirection::Write {
        let found = File::open(path).and_then(hash).map_err(failed(path))?;
        if found == effect.content {
            remove(path)?;
        }
    }
    Ok(Vec::new())
}

/// Whether the repository or folder that the intent changes was removed.
fn is_removed(intent: &ApplyIntent) -> bool {
    let place = match &intent.effect {
        Effect::Commit(_) => &intent.resource,
        Effect::Files(effect) => &effect.root,
        Effect::Patch(_) => return false,
    };
    fs::symlink_metadata(path_of(place.as_bytes())).is_err_and(|error| is_absent(&error))
}

/// Returns a conflict for a target that cannot be read; any other error is passed on.
fn missing(error: SandboxError, place: &AbsolutePath) -> TargetResult<Vec<Conflict>> {
    match error {
        SandboxError::NotARepository { .. }
        | SandboxError::NotAFolder { .. }
        | SandboxError::Io { .. } => Ok(vec![Conflict {
            path: None,
            place: Some(place.clone()),
            reason: ConflictReason::Missing,
        }]),
        error => Err(error.into()),
    }
}

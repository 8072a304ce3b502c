//! Carries out changes of files, below a folder or a working tree.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use cleveragents_domain::{AbsolutePath, ResourcePath, ResourceType};
use cleveragents_engine::ports::sandbox::{SandboxError, SandboxResult};
use cleveragents_engine::ports::targets::{
    Applied, ApplyIntent, Carried, Conflict, ConflictReason, FilesEffect, PathChange, Stopped,
    TargetResult,
};
use rustix::fs::{AtFlags, unlinkat};
use rustix::io::Errno;

use crate::apply::LocalTargets;
use crate::apply::place::{Placed, Placer};
use crate::apply::prepare_files::{modes_of, store_of};
use crate::apply::record::Record;
use crate::apply::staging::sync_all;
use crate::apply::standing::{Eye, Standing};
use crate::apply::steps::ApplyStep;
use crate::apply::user_moves::{Marks, undone_by_user};
use crate::beneath::{in_folder, open_root};
use crate::files::{Sync, path_of};
use crate::repository::Repository;
use cleveragents_beneath::reach::{make_folder, split};

/// Everything that stands in the way now; nothing is changed.
pub(crate) fn look(
    targets: &LocalTargets,
    record: &Record,
    intent: &ApplyIntent,
    effect: &FilesEffect,
) -> TargetResult<Vec<Conflict>> {
    let modes = modes_of(targets, intent)?;
    let store = store_of(targets, record, intent)?;
    let root = path_of(effect.root.as_bytes());
    let eye = Eye::on(root, modes, &intent.changes, store.as_ref())?.without_index();
    let watcher = targets.watcher.as_ref();
    let placer = Placer::new(&eye, &record.new_files(), intent.id, watcher)?;
    let nothing = BTreeSet::new();
    Ok(look_at_all(
        &placer,
        &intent.changes,
        &nothing,
        &effect.root,
    )?)
}

/// The caller has the turn of the folder, or of the repository whose files these are.
pub(crate) fn carry_out(
    targets: &LocalTargets,
    record: &Record,
    intent: &ApplyIntent,
    effect: &FilesEffect,
) -> TargetResult<Carried> {
    let root = path_of(effect.root.as_bytes());
    if !root.is_dir() {
        let path = root.to_owned();
        return Err(SandboxError::NotAFolder { path }.into());
    }
    let modes = modes_of(targets, intent)?;
    let store = store_of(targets, record, intent)?;
    let eye = Eye::on(root, modes, &intent.changes, store.as_ref())?.without_index();
    if record.marks().is_some_and(|it| !it.are_untouched()) {
        return Ok(Carried::Stopped(Stopped {
            conflicts: vec![undone_by_user(intent)],
            written: written(&eye, &intent.changes)?,
        }));
    }
    let repository = match intent.resource_type {
        ResourceType::GitCheckout => Some(Repository::find(&targets.git, root)?),
        ResourceType::FsDirectory => None,
    };
    record.note_begun(&Marks::of_files(repository.as_ref()))?;
    targets.reached(ApplyStep::Begun);
    let watcher = targets.watcher.as_ref();
    let placer = Placer::new(&eye, &record.new_files(), intent.id, watcher)?;
    let nothing = BTreeSet::new();
    let mut conflicts = look_at_all(&placer, &intent.changes, &nothing, &effect.root)?;
    if conflicts.is_empty() {
        conflicts = put_all(&placer, &intent.changes, &nothing, &effect.root)?;
    }
    if conflicts.is_empty() {
        conflicts = settle_folders(root, effect)?;
    }
    if conflicts.is_empty() {
        return Ok(Carried::Done(Applied {
            commit: None,
            reference: None,
            file: None,
        }));
    }
    Ok(Carried::Stopped(Stopped {
        conflicts,
        written: written(&eye, &intent.changes)?,
    }))
}

/// Looks at every path before the first is written, and clears up what a killed call left.
pub(crate) fn look_at_all(
    placer: &Placer<'_>,
    changes: &[PathChange],
    skipped: &BTreeSet<&ResourcePath>,
    place: &AbsolutePath,
) -> SandboxResult<Vec<Conflict>> {
    let mut conflicts = Vec::new();
    for (number, change) in changes.iter().enumerate() {
        if skipped.contains(&change.path) {
            continue;
        }
        let reason = match placer.settle(number, change)? {
            Some(reason) => Some(reason),
            None => match placer.eye.standing(change)? {
                Standing::Foreign(reason) => Some(reason),
                Standing::Old | Standing::New => None,
            },
        };
        conflicts.extend(reason.map(|reason| on(change, place, reason)));
    }
    Ok(conflicts)
}

fn on(change: &PathChange, place: &AbsolutePath, reason: ConflictReason) -> Conflict {
    Conflict {
        path: Some(change.path.clone()),
        place: Some(place.clone()),
        reason,
    }
}

/// More files than this are synced together.
const MANY: usize = 16;

/// Puts every path in place; what goes first, because a file may become a folder. The first that
/// somebody else changed ends it.
pub(crate) fn put_all(
    placer: &Placer<'_>,
    changes: &[PathChange],
    skipped: &BTreeSet<&ResourcePath>,
    place: &AbsolutePath,
) -> SandboxResult<Vec<Conflict>> {
    let numbered = changes.iter().enumerate();
    let all: Vec<(usize, &PathChange)> = numbered
        .filter(|(_, change)| !skipped.contains(&change.path))
        .collect();
    let sync = match all.len() > MANY {
        true => Sync::No,
        false => Sync::Yes,
    };
    let going = all.iter().filter(|(_, change)| change.new.is_none());
    for (number, change) in going {
        if let Placed::Foreign(reason) = placer.put(*number, change, sync)? {
            return Ok(vec![on(change, place, reason)]);
        }
    }
    let coming: Vec<_> = all.iter().filter(|(_, it)| it.new.is_some()).collect();
    let outcome = put_coming(placer, &coming, place, sync);
    if !matches!(&outcome, Ok(conflicts) if conflicts.is_empty()) {
        for (number, change) in coming {
            placer.sweep(*number, change)?;
        }
    }
    outcome
}

/// First the contents, then, when they are on disk, their places.
fn put_coming(
    placer: &Placer<'_>,
    coming: &[&(usize, &PathChange)],
    place: &AbsolutePath,
    sync: Sync,
) -> SandboxResult<Vec<Conflict>> {
    for (number, change) in coming {
        if placer.eye.standing(change)? == Standing::Old {
            placer.draft(*number, change, sync)?;
        }
    }
    if sync == Sync::No {
        sync_all(placer.eye.root())?;
    }
    for (number, change) in coming {
        if let Placed::Foreign(reason) = placer.put(*number, change, sync)? {
            return Ok(vec![on(change, place, reason)]);
        }
    }
    if sync == Sync::No {
        sync_all(placer.eye.root())?;
    }
    Ok(Vec::new())
}

/// The paths that are as they are to be.
pub(crate) fn written(eye: &Eye<'_>, changes: &[PathChange]) -> SandboxResult<Vec<ResourcePath>> {
    let mut written = Vec::new();
    for change in changes {
        if eye.may_be_written(change)? {
            written.push(change.path.clone());
        }
    }
    Ok(written)
}

/// Removes a folder and those around it, as long as they are empty. What is to be there although
/// it is empty is made afterwards.
fn remove_empty_folders(root: BorrowedFd<'_>, path: &[u8]) {
    let mut path = path;
    while !path.is_empty() {
        let removed = in_folder(root, path, |folder, name| {
            unlinkat(folder, path_of(name), AtFlags::REMOVEDIR)
        });
        if !matches!(removed, Ok(()) | Err(Errno::NOENT)) {
            return;
        }
        path = split(path).0;
    }
}

/// Empty folders appear, and go if they are still empty.
pub(crate) fn settle_folders(root: &Path, effect: &FilesEffect) -> SandboxResult<Vec<Conflict>> {
    let open = open_root(root)?;
    let mut conflicts = Vec::new();
    for path in &effect.removed {
        remove_empty_folders(open.as_fd(), path.as_bytes());
    }
    for path in &effect.made {
        match make_folder(open.as_fd(), path.as_bytes()) {
            Ok(_) => {}
            Err(Errno::NOTDIR | Errno::LOOP) => conflicts.push(Conflict {
                path: Some(path.clone()),
                place: Some(effect.root.clone()),
                reason: ConflictReason::Untracked,
            }),
            Err(error) => return Err(crate::beneath::failed(path_of(path.as_bytes()), error)),
        }
    }
    Ok(conflicts)
}

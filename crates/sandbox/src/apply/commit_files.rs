//! Writes file changes below a folder or a working tree.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use cleveragents_domain::{AbsolutePath, ResourcePath, ResourceType};
use cleveragents_ports::sandbox::{SandboxError, SandboxResult};
use cleveragents_ports::targets::{
    AppliedResult, ApplyIntent, CommitOutcome, Conflict, ConflictReason, FilesEffect, PathChange,
    StoppedCommit, TargetResult,
};
use rustix::fs::{AtFlags, unlinkat};
use rustix::io::Errno;

use crate::apply::LocalTargets;
use crate::apply::own_folders;
use crate::apply::path_inspector::{PathChangeState, PathInspector};
use crate::apply::path_writer::{PathWriteOutcome, PathWriter};
use crate::apply::prepare_files::{load_modes, new_paths, open_store};
use crate::apply::record::LocalApplyRecord;
use crate::apply::staging::sync_all;
use crate::apply::steps::ApplyStep;
use crate::apply::user_changes::{RepositoryMarks, undone_conflict};
use crate::files::{Sync, path_from_bytes};
use crate::repository::UserRepository;
use crate::safe_fs::{open_root, with_parent};
use cleveragents_safe_fs::file_access::{make_folder, split};

/// Returns everything that blocks the change now. Writes nothing.
pub(crate) fn find_conflicts(
    targets: &LocalTargets,
    record: &LocalApplyRecord,
    intent: &ApplyIntent,
    effect: &FilesEffect,
) -> TargetResult<Vec<Conflict>> {
    let modes = load_modes(targets, intent)?;
    let store = open_store(targets, record, intent)?;
    let root = path_from_bytes(effect.root.as_bytes());
    let inspector =
        PathInspector::new(root, modes, &intent.changes, store.as_ref())?.without_index();
    let watcher = targets.watcher.as_ref();
    let placer = PathWriter::new(&inspector, &record.new_files(), intent.id, watcher)?;
    let nothing = BTreeSet::new();
    let mut conflicts = check_all_paths(&placer, &intent.changes, &nothing, &effect.root)?;
    if !record.has_begun() {
        // Another program made the change since it was prepared. It is not ours, so the apply must
        // be prepared again without it.
        let done = new_paths(&inspector, &intent.changes)?.into_iter();
        conflicts.extend(done.map(|path| Conflict {
            path: Some(path),
            place: Some(effect.root.clone()),
            reason: ConflictReason::Changed,
        }));
    }
    Ok(conflicts)
}

/// The caller must hold the lock of the folder, or of the repository that contains the files.
pub(crate) fn commit(
    targets: &LocalTargets,
    record: &LocalApplyRecord,
    intent: &ApplyIntent,
    effect: &FilesEffect,
) -> TargetResult<CommitOutcome> {
    let root = path_from_bytes(effect.root.as_bytes());
    if !root.is_dir() {
        let path = root.to_owned();
        return Err(SandboxError::NotAFolder { path }.into());
    }
    let modes = load_modes(targets, intent)?;
    let store = open_store(targets, record, intent)?;
    let inspector =
        PathInspector::new(root, modes, &intent.changes, store.as_ref())?.without_index();
    if record.marks().is_some_and(|it| !it.is_untouched()) {
        let watcher = targets.watcher.as_ref();
        let placer = PathWriter::new(&inspector, &record.new_files(), intent.id, watcher)?;
        unlink_drafts(&placer, &intent.changes)?;
        return Ok(CommitOutcome::Stopped(StoppedCommit {
            conflicts: vec![undone_conflict(intent)],
            written: written_paths(&inspector, &intent.changes)?,
        }));
    }
    let repository = match intent.resource_type {
        ResourceType::GitCheckout => Some(UserRepository::find(&targets.git, root)?),
        ResourceType::FsDirectory => None,
    };
    // Folders are recorded before `begun`, because a commit that was interrupted may have created
    // some already.
    own_folders::note(record, [&effect.root], &intent.changes)?;
    record.mark_begun(&RepositoryMarks::for_files(repository.as_ref()))?;
    targets.reached(ApplyStep::Started);
    let watcher = targets.watcher.as_ref();
    let placer = PathWriter::new(&inspector, &record.new_files(), intent.id, watcher)?;
    let nothing = BTreeSet::new();
    let mut conflicts = check_all_paths(&placer, &intent.changes, &nothing, &effect.root)?;
    if conflicts.is_empty() {
        conflicts = write_all_paths(&placer, &intent.changes, &nothing, &effect.root)?;
    }
    if conflicts.is_empty() {
        conflicts = update_empty_folders(root, effect)?;
    }
    if conflicts.is_empty() {
        return Ok(CommitOutcome::Done(AppliedResult {
            commit: None,
            reference: None,
            file: None,
        }));
    }
    Ok(CommitOutcome::Stopped(StoppedCommit {
        conflicts,
        written: written_paths(&inspector, &intent.changes)?,
    }))
}

/// Removes the drafts of a killed call, which would stay beside the user's files if the apply does
/// not continue.
pub(crate) fn unlink_drafts(placer: &PathWriter<'_>, changes: &[PathChange]) -> SandboxResult<()> {
    for (number, change) in changes.iter().enumerate() {
        placer.unlink_draft(number, change)?;
    }
    Ok(())
}

/// Checks every path before the first one is written, and removes leftovers of a killed call.
pub(crate) fn check_all_paths(
    placer: &PathWriter<'_>,
    changes: &[PathChange],
    skipped: &BTreeSet<&ResourcePath>,
    root: &AbsolutePath,
) -> SandboxResult<Vec<Conflict>> {
    let mut conflicts = Vec::new();
    for (number, change) in changes.iter().enumerate() {
        if skipped.contains(&change.path) {
            continue;
        }
        let reason = match placer.clean_up_path(number, change)? {
            Some(reason) => Some(reason),
            None => match placer.inspector.change_state(change)? {
                PathChangeState::Foreign(reason) => Some(reason),
                PathChangeState::Old | PathChangeState::New => None,
            },
        };
        conflicts.extend(reason.map(|reason| path_conflict(change, root, reason)));
    }
    Ok(conflicts)
}

fn path_conflict(change: &PathChange, root: &AbsolutePath, reason: ConflictReason) -> Conflict {
    Conflict {
        path: Some(change.path.clone()),
        place: Some(root.clone()),
        reason,
    }
}

/// Above this number of files, one sync covers all of them.
const BATCH_SYNC_THRESHOLD: usize = 16;

/// Writes every path. Removals come first because a file may become a folder. Stops at the first path
/// that another program changed.
pub(crate) fn write_all_paths(
    placer: &PathWriter<'_>,
    changes: &[PathChange],
    skipped: &BTreeSet<&ResourcePath>,
    root: &AbsolutePath,
) -> SandboxResult<Vec<Conflict>> {
    let numbered = changes.iter().enumerate();
    let all: Vec<(usize, &PathChange)> = numbered
        .filter(|(_, change)| !skipped.contains(&change.path))
        .collect();
    // Many single syncs are slow; one sync of the file system has the same effect.
    let sync = if all.len() > BATCH_SYNC_THRESHOLD {
        Sync::No
    } else {
        Sync::Yes
    };
    let removals = all.iter().filter(|(_, change)| change.new.is_none());
    for (number, change) in removals {
        if let PathWriteOutcome::Conflict(reason) = placer.write_path(*number, change, sync)? {
            return Ok(vec![path_conflict(change, root, reason)]);
        }
    }
    let additions: Vec<_> = all.iter().filter(|(_, it)| it.new.is_some()).collect();
    let outcome = write_additions(placer, &additions, root, sync);
    // Drafts of paths that were not written would stay beside the user's files.
    if !matches!(&outcome, Ok(conflicts) if conflicts.is_empty()) {
        for (number, change) in additions {
            placer.remove_draft(*number, change)?;
        }
    }
    outcome
}

/// Writes all contents first and moves them into place once they are on disk.
fn write_additions(
    placer: &PathWriter<'_>,
    additions: &[&(usize, &PathChange)],
    root: &AbsolutePath,
    sync: Sync,
) -> SandboxResult<Vec<Conflict>> {
    for (number, change) in additions {
        if placer.inspector.change_state(change)? == PathChangeState::Old {
            placer.write_draft(*number, change, sync)?;
        }
    }
    // All contents must be durable before the first rename, and all renames before the apply counts
    // as done (law 10).
    if sync == Sync::No {
        sync_all(placer.inspector.root())?;
    }
    for (number, change) in additions {
        if let PathWriteOutcome::Conflict(reason) = placer.write_path(*number, change, sync)? {
            return Ok(vec![path_conflict(change, root, reason)]);
        }
    }
    if sync == Sync::No {
        sync_all(placer.inspector.root())?;
    }
    Ok(Vec::new())
}

/// Returns the paths that already have their new state.
pub(crate) fn written_paths(
    inspector: &PathInspector<'_>,
    changes: &[PathChange],
) -> SandboxResult<Vec<ResourcePath>> {
    let mut written = Vec::new();
    for change in changes {
        if inspector.may_be_written(change)? {
            written.push(change.path.clone());
        }
    }
    Ok(written)
}

/// Removes a folder and its parents as long as they are empty. The caller creates the empty folders
/// that must exist afterwards.
fn remove_empty_folders(root: BorrowedFd<'_>, path: &[u8]) {
    let mut path = path;
    while !path.is_empty() {
        let removed = with_parent(root, path, |folder, name| {
            unlinkat(folder, path_from_bytes(name), AtFlags::REMOVEDIR)
        });
        if !matches!(removed, Ok(()) | Err(Errno::NOENT)) {
            return;
        }
        path = split(path).0;
    }
}

/// Creates the empty folders that must exist, and removes the others if they are still empty.
pub(crate) fn update_empty_folders(
    root: &Path,
    effect: &FilesEffect,
) -> SandboxResult<Vec<Conflict>> {
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
            Err(error) => {
                return Err(crate::safe_fs::errno_error(
                    path_from_bytes(path.as_bytes()),
                    error,
                ));
            }
        }
    }
    Ok(conflicts)
}

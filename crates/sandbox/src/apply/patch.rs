//! Writes a result as a patch to a file that the user chose.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use cleveragents_domain::AbsolutePath;
use cleveragents_ports::sandbox::{SandboxError, SandboxResult};
use cleveragents_ports::targets::{
    AppliedResult, ApplyEffect, ApplyRequest, CommitOutcome, Conflict, ConflictReason, ContentHash,
    PatchDirection, PatchEffect, PrepareOutcome, RequestedChange, StoppedCommit, TargetError,
    TargetResult,
};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::apply::LocalTargets;
use crate::apply::checkouts::to_absolute_path;
use crate::apply::prepare_commit::ready_outcome;
use crate::apply::record::LocalApplyRecord;
use crate::apply::staging::hash;
use crate::apply::steps::ApplyStep;
use crate::apply::user_changes::RepositoryMarks;
use crate::diff;
use crate::files::{io_error, is_not_found, path_from_bytes, remove, replace};

enum PatchFileState {
    Absent,
    Same,
    Other,
}

pub(crate) fn prepare(
    targets: &LocalTargets,
    record: &LocalApplyRecord,
    request: &ApplyRequest,
    file: &AbsolutePath,
) -> TargetResult<PrepareOutcome> {
    let effect = match &request.change {
        RequestedChange::Result {
            sandbox, from, to, ..
        } => {
            let sandbox = targets.open_sandbox(*sandbox)?;
            let patch = diff::diff(&sandbox.store, from, to, &[])?.patch;
            if patch.is_empty() {
                return Ok(PrepareOutcome::Nothing);
            }
            replace(&record.patch(), &patch)?;
            PatchEffect {
                file: to_absolute_path(&resolve_file(path_from_bytes(file.as_bytes()))?)?,
                content: hash(patch.as_slice()).map_err(io_error(&record.patch()))?,
                direction: PatchDirection::Write,
            }
        }
        RequestedChange::Reverse(applied) => {
            let ApplyEffect::Patch(effect) = &applied.effect else {
                return Err(TargetError::Forgotten { id: applied.id });
            };
            PatchEffect {
                direction: PatchDirection::Remove,
                ..effect.clone()
            }
        }
    };
    targets.reached(ApplyStep::Staged);
    let state = patch_file_state(&effect.file, &effect.content)?;
    Ok(match (effect.direction, state) {
        // A file with the same content is not ours: undoing the apply must leave it.
        (PatchDirection::Write, PatchFileState::Same)
        | (PatchDirection::Remove, PatchFileState::Absent) => PrepareOutcome::Nothing,
        (_, PatchFileState::Other) => PrepareOutcome::Blocked(vec![patch_conflict(&effect)]),
        _ => ready_outcome(request, Vec::new(), ApplyEffect::Patch(effect)),
    })
}

/// Returns the path with its folder resolved. Fails if the folder does not exist.
fn resolve_file(path: &Path) -> TargetResult<PathBuf> {
    let refused = |reason: String| TargetError::PatchFile {
        path: path.to_owned(),
        reason,
    };
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(refused("it is not a file".to_owned()));
    };
    let folder = folder.canonicalize();
    let folder = folder.map_err(|error| refused(format!("its folder: {error}")))?;
    if folder.is_dir() {
        Ok(folder.join(name))
    } else {
        Err(refused("its folder does not exist".to_owned()))
    }
}

fn patch_file_state(file: &AbsolutePath, content: &ContentHash) -> SandboxResult<PatchFileState> {
    let path = path_from_bytes(file.as_bytes());
    match fs::symlink_metadata(path) {
        Err(error) if is_not_found(&error) => return Ok(PatchFileState::Absent),
        Err(error) => return Err(io_error(path)(error)),
        Ok(found) if !found.is_file() => return Ok(PatchFileState::Other),
        Ok(_) => {}
    }
    let found = File::open(path).and_then(hash).map_err(io_error(path))?;
    Ok(if found == *content {
        PatchFileState::Same
    } else {
        PatchFileState::Other
    })
}

fn patch_conflict(effect: &PatchEffect) -> Conflict {
    Conflict {
        path: None,
        place: Some(effect.file.clone()),
        reason: match effect.direction {
            PatchDirection::Write => ConflictReason::Exists,
            PatchDirection::Remove => ConflictReason::Changed,
        },
    }
}

/// Returns what blocks the write now. Writes nothing.
pub(crate) fn find_conflicts(
    record: &LocalApplyRecord,
    effect: &PatchEffect,
) -> SandboxResult<Vec<Conflict>> {
    let state = patch_file_state(&effect.file, &effect.content)?;
    Ok(match (state, effect.direction) {
        (PatchFileState::Other, _) => vec![patch_conflict(effect)],
        // Another program wrote it since it was prepared, so it is not ours.
        (PatchFileState::Same, PatchDirection::Write) if !record.has_begun() => {
            vec![patch_conflict(effect)]
        }
        (PatchFileState::Absent | PatchFileState::Same, _) => Vec::new(),
    })
}

pub(crate) fn commit(
    targets: &LocalTargets,
    record: &LocalApplyRecord,
    effect: &PatchEffect,
) -> TargetResult<CommitOutcome> {
    // Recorded before the first change (law 9).
    record.mark_begun(&RepositoryMarks::default())?;
    targets.reached(ApplyStep::Started);
    let path = path_from_bytes(effect.file.as_bytes());
    let state = patch_file_state(&effect.file, &effect.content)?;
    match (effect.direction, state) {
        (_, PatchFileState::Other) => return Ok(stopped_outcome(effect)),
        (PatchDirection::Write, PatchFileState::Same)
        | (PatchDirection::Remove, PatchFileState::Absent) => {}
        (PatchDirection::Remove, PatchFileState::Same) => {
            remove(path)?;
            targets.reached(ApplyStep::PathSettled);
        }
        (PatchDirection::Write, PatchFileState::Absent) => {
            if !write(targets, record, path)? {
                return Ok(stopped_outcome(effect));
            }
        }
    }
    Ok(CommitOutcome::Done(AppliedResult {
        commit: None,
        reference: None,
        file: Some(effect.file.clone()),
    }))
}

fn stopped_outcome(effect: &PatchEffect) -> CommitOutcome {
    CommitOutcome::Stopped(StoppedCommit {
        conflicts: vec![patch_conflict(effect)],
        written: Vec::new(),
    })
}

/// Writes a temporary file and renames it into place. Returns `false` if a file exists there by then.
fn write(targets: &LocalTargets, record: &LocalApplyRecord, path: &Path) -> SandboxResult<bool> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let beside = folder.join(format!(".agents-{}-patch", record.id));
    remove(&beside)?;
    let copy = || -> io::Result<()> {
        fs::copy(record.patch(), &beside)?;
        let file = File::options().write(true).open(&beside)?;
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
        file.sync_all()
    };
    copy().map_err(io_error(&beside))?;
    targets.reached(ApplyStep::PathWritten);
    // A plain rename would replace a file that another program created since the check.
    match renameat_with(CWD, &beside, CWD, path, RenameFlags::NOREPLACE) {
        Ok(()) => {}
        Err(Errno::EXIST) => {
            remove(&beside)?;
            return Ok(false);
        }
        Err(error) => {
            return Err(SandboxError::Io {
                path: path.to_owned(),
                reason: io::Error::from(error).to_string(),
            });
        }
    }
    // Only then is the rename durable (law 10).
    let folder_file = File::open(folder).map_err(io_error(folder))?;
    folder_file.sync_all().map_err(io_error(folder))?;
    targets.reached(ApplyStep::PathSettled);
    Ok(true)
}

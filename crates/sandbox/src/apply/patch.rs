//! A result as a patch in a file of the user's choice.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use cleveragents_domain::AbsolutePath;
use cleveragents_engine::ports::sandbox::{SandboxError, SandboxResult};
use cleveragents_engine::ports::targets::{
    Applied, ApplyRequest, Carried, Conflict, ConflictReason, ContentHash, Effect, PatchDirection,
    PatchEffect, Prepared, RequestedChange, Stopped, TargetError, TargetResult,
};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::apply::LocalTargets;
use crate::apply::checkouts::absolute;
use crate::apply::prepare_commit::ready;
use crate::apply::record::Record;
use crate::apply::staging::hash;
use crate::apply::steps::ApplyStep;
use crate::apply::user_moves::Marks;
use crate::diff;
use crate::files::{failed, is_absent, path_of, remove, replace};

/// How the file stands.
enum Stands {
    Absent,
    Same,
    Other,
}

pub(crate) fn prepare(
    targets: &LocalTargets,
    record: &Record,
    request: &ApplyRequest,
    file: &AbsolutePath,
) -> TargetResult<Prepared> {
    let effect = match &request.change {
        RequestedChange::Result {
            sandbox, from, to, ..
        } => {
            let sandbox = targets.sandbox(*sandbox)?;
            let patch = diff::diff(&sandbox.store, from, to, &[])?.patch;
            if patch.is_empty() {
                return Ok(Prepared::Nothing);
            }
            replace(&record.patch(), &patch)?;
            PatchEffect {
                file: absolute(&resolved(path_of(file.as_bytes()))?)?,
                content: hash(patch.as_slice()).map_err(failed(&record.patch()))?,
                direction: PatchDirection::Write,
            }
        }
        RequestedChange::Reverse(applied) => {
            let Effect::Patch(effect) = &applied.effect else {
                return Err(TargetError::Forgotten { id: applied.id });
            };
            PatchEffect {
                direction: PatchDirection::Remove,
                ..effect.clone()
            }
        }
    };
    targets.reached(ApplyStep::Staged);
    let stands = stands(&effect.file, &effect.content)?;
    Ok(match (effect.direction, stands) {
        (PatchDirection::Remove, Stands::Absent) => Prepared::Nothing,
        (_, Stands::Other) => Prepared::Blocked(vec![in_the_way(&effect)]),
        _ => ready(request, Vec::new(), Effect::Patch(effect)),
    })
}

/// The file in its folder, which must be there.
fn resolved(path: &Path) -> TargetResult<PathBuf> {
    let refused = |reason: String| TargetError::PatchFile {
        path: path.to_owned(),
        reason,
    };
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(refused("it is no file".to_owned()));
    };
    let folder = folder.canonicalize();
    let folder = folder.map_err(|error| refused(format!("its folder: {error}")))?;
    match folder.is_dir() {
        true => Ok(folder.join(name)),
        false => Err(refused("its folder is not there".to_owned())),
    }
}

fn stands(file: &AbsolutePath, content: &ContentHash) -> SandboxResult<Stands> {
    let path = path_of(file.as_bytes());
    match fs::symlink_metadata(path) {
        Err(error) if is_absent(&error) => return Ok(Stands::Absent),
        Err(error) => return Err(failed(path)(error)),
        Ok(found) if !found.is_file() => return Ok(Stands::Other),
        Ok(_) => {}
    }
    let found = File::open(path).and_then(hash).map_err(failed(path))?;
    Ok(match found == *content {
        true => Stands::Same,
        false => Stands::Other,
    })
}

fn in_the_way(effect: &PatchEffect) -> Conflict {
    Conflict {
        path: None,
        place: Some(effect.file.clone()),
        reason: match effect.direction {
            PatchDirection::Write => ConflictReason::Exists,
            PatchDirection::Remove => ConflictReason::Changed,
        },
    }
}

/// What stands in the way now; nothing is changed.
pub(crate) fn look(effect: &PatchEffect) -> SandboxResult<Vec<Conflict>> {
    Ok(match stands(&effect.file, &effect.content)? {
        Stands::Other => vec![in_the_way(effect)],
        Stands::Absent | Stands::Same => Vec::new(),
    })
}

pub(crate) fn carry_out(
    targets: &LocalTargets,
    record: &Record,
    effect: &PatchEffect,
) -> TargetResult<Carried> {
    record.note_begun(&Marks::default())?;
    targets.reached(ApplyStep::Begun);
    let path = path_of(effect.file.as_bytes());
    let stands = stands(&effect.file, &effect.content)?;
    match (effect.direction, stands) {
        (_, Stands::Other) => return Ok(stopped(effect)),
        (PatchDirection::Write, Stands::Same) | (PatchDirection::Remove, Stands::Absent) => {}
        (PatchDirection::Remove, Stands::Same) => {
            remove(path)?;
            targets.reached(ApplyStep::PathSettled);
        }
        (PatchDirection::Write, Stands::Absent) => {
            if !write(targets, record, path)? {
                return Ok(stopped(effect));
            }
        }
    }
    Ok(Carried::Done(Applied {
        commit: None,
        reference: None,
        file: Some(effect.file.clone()),
    }))
}

fn stopped(effect: &PatchEffect) -> Carried {
    Carried::Stopped(Stopped {
        conflicts: vec![in_the_way(effect)],
        written: Vec::new(),
    })
}

/// Writes beside and moves into place, unless something is there by then; whether it was moved.
fn write(targets: &LocalTargets, record: &Record, path: &Path) -> SandboxResult<bool> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let beside = folder.join(format!(".agents-{}-patch", record.id));
    remove(&beside)?;
    let copy = || -> io::Result<()> {
        fs::copy(record.patch(), &beside)?;
        let file = File::options().write(true).open(&beside)?;
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
        file.sync_all()
    };
    copy().map_err(failed(&beside))?;
    targets.reached(ApplyStep::PathWritten);
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
    let folder_file = File::open(folder).map_err(failed(folder))?;
    folder_file.sync_all().map_err(failed(folder))?;
    targets.reached(ApplyStep::PathSettled);
    Ok(true)
}

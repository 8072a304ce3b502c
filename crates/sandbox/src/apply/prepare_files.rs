//! Prepares changes of a folder's files, and reverses those of any files.

use std::path::Path;

use cleveragents_domain::{ResourcePath, ResourceType};
use cleveragents_engine::ports::sandbox::{ObjectFormat, SandboxError, SandboxResult};
use cleveragents_engine::ports::stop::Stop;
use cleveragents_engine::ports::targets::{
    ApplyIntent, ApplyRequest, Conflict, ConflictReason, Effect, FilesEffect, PathChange, Prepared,
    RequestedChange, TargetError, TargetResult,
};

use crate::apply::checkouts::absolute;
use crate::apply::prepare_commit::ready;
use crate::apply::record::Record;
use crate::apply::standing::{Eye, Modes, Standing};
use crate::apply::steps::ApplyStep;
use crate::apply::{LocalTargets, staging, workbench};
use crate::files::{failed, path_of, remove, resource_path};
use crate::private_dir::PrivateGitDir;
use crate::repository::Repository;
use crate::store::{PrivateStore, Reader};

/// A folder is not merged into: each changed file must be as the plan found it.
pub(crate) fn prepare(
    targets: &LocalTargets,
    record: &Record,
    request: &ApplyRequest,
) -> TargetResult<Prepared> {
    let RequestedChange::Result {
        sandbox, from, to, ..
    } = &request.change
    else {
        return Err(TargetError::Forgotten { id: request.id });
    };
    let resource = path_of(request.resource.as_bytes());
    let root = resource.canonicalize().map_err(failed(resource))?;
    if !root.is_dir() {
        return Err(SandboxError::NotAFolder { path: root }.into());
    }
    let sandbox = targets.sandbox(*sandbox)?;
    let objects = sandbox.store.dir.join("objects");
    let store = workbench::make(&targets.git, record, ObjectFormat::Sha1, &[&objects])?;
    let mut changes = workbench::changes(&store, from.files(), to.files())?;
    let nothing = store.attributes.clone();
    staging::stage(&store, record, &mut changes, (&nothing, &nothing))?;
    targets.reached(ApplyStep::Staged);
    let (before, after) = (
        store.entries_of(from)?.empty_directories,
        store.entries_of(to)?.empty_directories,
    );
    let paths = |paths: Vec<&Vec<u8>>| -> SandboxResult<Vec<ResourcePath>> {
        paths.into_iter().map(|path| resource_path(path)).collect()
    };
    let effect = FilesEffect {
        root: absolute(&root)?,
        made: paths(after.difference(&before).collect())?,
        removed: paths(before.difference(&after).collect())?,
    };
    // The files lie ready; their objects are not needed again.
    remove(&record.store())?;
    finish(
        request,
        (changes, effect),
        Modes::of(&[]),
        ConflictReason::Edited,
    )
}

/// Puts files back to what they were, from what lies ready since they were written.
pub(crate) fn reverse(
    targets: &LocalTargets,
    record: &Record,
    request: &ApplyRequest,
    applied: &ApplyIntent,
) -> TargetResult<Prepared> {
    let forgotten = TargetError::Forgotten { id: applied.id };
    let Effect::Files(effect) = &applied.effect else {
        return Err(forgotten);
    };
    let source = Record::of(&targets.applies, applied.id);
    if !source.is_there() {
        return Err(forgotten);
    }
    let root = path_of(effect.root.as_bytes());
    if !root.is_dir() {
        let path = root.to_owned();
        return Err(SandboxError::NotAFolder { path }.into());
    }
    staging::stage_reversed(&source, record)?;
    targets.reached(ApplyStep::Staged);
    let changes = reversed(&applied.changes);
    let effect = FilesEffect {
        root: effect.root.clone(),
        made: effect.removed.clone(),
        removed: effect.made.clone(),
    };
    let modes = modes_of(targets, applied)?;
    finish(request, (changes, effect), modes, ConflictReason::Changed)
}

/// The same changes the other way round.
pub(crate) fn reversed(changes: &[PathChange]) -> Vec<PathChange> {
    let changes = changes.iter().map(|change| PathChange {
        path: change.path.clone(),
        old: change.new.clone(),
        new: change.old.clone(),
    });
    changes.collect()
}

fn finish(
    request: &ApplyRequest,
    (changes, effect): (Vec<PathChange>, FilesEffect),
    modes: Modes,
    edited: ConflictReason,
) -> TargetResult<Prepared> {
    let root = path_of(effect.root.as_bytes());
    let (conflicts, is_done) = look(root, modes, &changes, &edited)?;
    if !conflicts.is_empty() {
        let conflicts = conflicts.into_iter().map(|(path, reason)| Conflict {
            path: Some(path),
            place: Some(effect.root.clone()),
            reason,
        });
        return Ok(Prepared::Blocked(conflicts.collect()));
    }
    let is_folder = |path: &ResourcePath| {
        let found = root.join(path_of(path.as_bytes())).symlink_metadata();
        found.is_ok_and(|found| found.is_dir())
    };
    let folders_are_done =
        effect.made.iter().all(is_folder) && !effect.removed.iter().any(is_folder);
    match is_done && folders_are_done {
        true => Ok(Prepared::Nothing),
        false => Ok(ready(request, changes, Effect::Files(effect))),
    }
}

type Reasons = Vec<(ResourcePath, ConflictReason)>;

/// What stands in the way, and whether everything is as it is to be already.
fn look(
    root: &Path,
    modes: Modes,
    changes: &[PathChange],
    edited: &ConflictReason,
) -> SandboxResult<(Reasons, bool)> {
    let eye = Eye::on(root, modes, changes, None)?.without_index();
    let (mut conflicts, mut is_done) = (Vec::new(), true);
    for change in changes {
        let reason = match eye.standing(change)? {
            Standing::New => continue,
            Standing::Old => {
                is_done = false;
                continue;
            }
            Standing::Foreign(ConflictReason::Changed) => edited.clone(),
            Standing::Foreign(reason) => reason,
        };
        conflicts.push((change.path.clone(), reason));
    }
    Ok((conflicts, is_done))
}

/// What of modes counts where the files are.
pub(crate) fn modes_of(targets: &LocalTargets, intent: &ApplyIntent) -> SandboxResult<Modes> {
    match intent.resource_type {
        ResourceType::FsDirectory => Ok(Modes::of(&[])),
        ResourceType::GitCheckout => {
            let resource = path_of(intent.resource.as_bytes());
            let repository = Repository::find(&targets.git, resource)?;
            Ok(Modes::of(&repository.settings.shaping))
        }
    }
}

/// The store in which the changes of a working tree were worked out, while it is kept.
pub(crate) fn store_of(
    targets: &LocalTargets,
    record: &Record,
    intent: &ApplyIntent,
) -> SandboxResult<Option<PrivateStore>> {
    if intent.resource_type == ResourceType::FsDirectory || !record.store().is_dir() {
        return Ok(None);
    }
    let resource = path_of(intent.resource.as_bytes());
    let repository = Repository::find(&targets.git, resource)?;
    let head = repository.head()?;
    let mut store = PrivateStore {
        git: targets.git.clone(),
        dir: PrivateGitDir::new(record.store()),
        format: repository.object_format,
        shaping: repository.settings.shaping.clone(),
        attributes: String::new(),
        reader: Reader::default(),
        stop: Stop::new(),
    };
    store.attributes = match head.commit() {
        Some(commit) => workbench::tree_of(&store, commit)?,
        None => store.empty_tree()?,
    };
    Ok(Some(store))
}

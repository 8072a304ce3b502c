//! Finds files into which a plan wrote a mask. Applying one would overwrite the secret behind it.

use std::collections::BTreeSet;

use cleveragents_ports::targets::{
    ApplyRequest, Conflict, ConflictReason, PathChange, PathState, RequestedChange, TargetResult,
};

use crate::apply::prepare_commit::path_conflict;
use crate::apply::{LocalTargets, apply_store};
use crate::entries::GITLINK;
use crate::object_id::ObjectId;
use crate::store::PrivateStore;

/// Returns a conflict for each changed file with a mask that none of the changed files had before, so
/// a file with a mask may still be moved. Only changed files are read, in chunks.
pub(crate) fn find_written_masks(
    targets: &LocalTargets,
    request: &ApplyRequest,
) -> TargetResult<Vec<Conflict>> {
    let RequestedChange::Result {
        sandbox, from, to, ..
    } = &request.change
    else {
        // A reversal restores the user's own content.
        return Ok(Vec::new());
    };
    let store = targets.open_sandbox(*sandbox)?.store;
    let all = apply_store::changes(&store, from.files(), to.files())?;
    let is_file = |change: &&PathChange| change.new.as_ref().is_some_and(|it| it.mode != GITLINK);
    let changes: Vec<&PathChange> = all.iter().filter(is_file).collect();
    let new: Vec<ObjectId> = changes
        .iter()
        .filter_map(|change| change.new.as_ref())
        .map(|state| ObjectId::parse(&state.object))
        .collect::<Result<_, _>>()?;
    let all_found = store.masks_in(&new)?;
    if all_found.iter().all(BTreeSet::is_empty) {
        return Ok(Vec::new());
    }
    let before = masks_before(&store, &all)?;
    let mut conflicts = Vec::new();
    for (change, found) in changes.iter().zip(all_found) {
        if let Some(mask) = found.into_iter().find(|mask| !before.contains(mask)) {
            let reason = ConflictReason::Mask { mask };
            conflicts.push(path_conflict(change.path.as_bytes(), reason)?);
        }
    }
    Ok(conflicts)
}

/// Returns the masks in the old versions of the changed files.
fn masks_before(store: &PrivateStore, changes: &[PathChange]) -> TargetResult<BTreeSet<String>> {
    let is_file = |state: &&PathState| state.mode != GITLINK;
    let old = changes.iter().filter_map(|change| change.old.as_ref());
    let old: Vec<ObjectId> = old
        .filter(is_file)
        .map(|state| ObjectId::parse(&state.object))
        .collect::<Result<_, _>>()?;
    Ok(store.masks_in(&old)?.into_iter().flatten().collect())
}

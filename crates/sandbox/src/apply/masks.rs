//! Files into which a plan wrote a mask: applied, it would take the place of what it stands for.

use std::collections::BTreeSet;

use cleveragents_engine::ports::targets::{
    ApplyRequest, Conflict, ConflictReason, PathChange, PathState, RequestedChange, TargetResult,
};

use crate::apply::prepare_commit::conflict;
use crate::apply::{LocalTargets, workbench};
use crate::entries::GITLINK;
use crate::object_id::ObjectId;
use crate::store::PrivateStore;

/// Returns a conflict for each changed file that has a mask which it did not have before. Only
/// changed files are read, piece by piece.
pub(crate) fn written(
    targets: &LocalTargets,
    request: &ApplyRequest,
) -> TargetResult<Vec<Conflict>> {
    let RequestedChange::Result {
        sandbox, from, to, ..
    } = &request.change
    else {
        // A reversal brings back what was the user's.
        return Ok(Vec::new());
    };
    let store = targets.sandbox(*sandbox)?.store;
    let changes = workbench::changes(&store, from.files(), to.files())?;
    let is_file = |change: &&PathChange| change.new.as_ref().is_some_and(|it| it.mode != GITLINK);
    let changes: Vec<&PathChange> = changes.iter().filter(is_file).collect();
    let new: Vec<ObjectId> = changes
        .iter()
        .filter_map(|change| change.new.as_ref())
        .map(|state| ObjectId::parse(&state.object))
        .collect::<Result<_, _>>()?;
    let mut conflicts = Vec::new();
    for (change, found) in changes.iter().zip(store.masks_in(&new)?) {
        if found.is_empty() {
            continue;
        }
        let before = masks_of(&store, change.old.as_ref())?;
        if let Some(mask) = found.into_iter().find(|mask| !before.contains(mask)) {
            let reason = ConflictReason::Mask { mask };
            conflicts.push(conflict(change.path.as_bytes(), reason)?);
        }
    }
    Ok(conflicts)
}

fn masks_of(store: &PrivateStore, state: Option<&PathState>) -> TargetResult<BTreeSet<String>> {
    let Some(state) = state.filter(|state| state.mode != GITLINK) else {
        return Ok(BTreeSet::new());
    };
    let found = store.masks_in(&[ObjectId::parse(&state.object)?])?;
    Ok(found.into_iter().flatten().collect())
}

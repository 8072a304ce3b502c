//! Finds changes that no plan may make: to submodules, and to files with a filter.
//!
//! A plan may remove a submodule: its index entry is removed, and as in git its files stay. A plan
//! may not add one or move it to another commit; only a reversal may restore one.

use std::collections::{BTreeMap, BTreeSet};

use cleveragents_ports::sandbox::SandboxResult;
use cleveragents_ports::targets::{Conflict, ConflictReason, PathChange, PathState};

use crate::apply::apply_store::with_attributes;
use crate::apply::prepare_commit::path_conflict;
use crate::attributes::{self, Attribute};
use crate::entries::{GITLINK, LINK};
use crate::filters::{MAX_POINTER_SIZE, StorableContent, is_pointer};
use crate::object_id::ObjectId;
use crate::store::PrivateStore;

/// Changed paths that have filters according to the attributes of either side.
pub(crate) type FilteredPaths = BTreeMap<Vec<u8>, BTreeSet<String>>;

pub(crate) fn find_filtered(
    store: &PrivateStore,
    changes: &[PathChange],
    trees: [&String; 2],
) -> SandboxResult<FilteredPaths> {
    let mut filtered = FilteredPaths::new();
    let paths: Vec<&[u8]> = changes.iter().map(|it| it.path.as_bytes()).collect();
    for tree in trees {
        let store = with_attributes(store, tree);
        let found = attributes::query_attributes(|| store.call([]), &paths, &[Attribute::Filter])?;
        for (path, attributes) in found {
            if let Some(name) = attributes.filter() {
                let names = filtered.entry(path).or_default();
                names.insert(name.to_owned());
            }
        }
    }
    Ok(filtered)
}

/// Which changes of submodules are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SubmoduleChanges {
    /// A plan may remove one.
    Removal,
    /// A reversal may also restore a removed one.
    RemovalOrReturn,
}

/// Finds forbidden submodule changes, and files whose filter forbids storing what the plan wrote.
pub(crate) fn find_forbidden(
    store: &PrivateStore,
    changes: &[PathChange],
    filtered: &FilteredPaths,
    submodules: SubmoduleChanges,
) -> SandboxResult<Vec<Conflict>> {
    let mut conflicts = BTreeSet::new();
    for change in changes {
        let path = change.path.as_bytes();
        if is_gitlink(change.old.as_ref()) || is_gitlink(change.new.as_ref()) {
            let is_allowed = match (&change.old, &change.new) {
                (Some(_), None) => true,
                (None, Some(_)) => submodules == SubmoduleChanges::RemovalOrReturn,
                _ => false,
            };
            if !is_allowed {
                conflicts.insert(path_conflict(path, ConflictReason::Submodule)?);
            }
            // Git runs no filter on a submodule.
            continue;
        }
        for name in filtered.get(path).into_iter().flatten() {
            if !can_store(store, change, name)? {
                let name = name.clone();
                conflicts.insert(path_conflict(path, ConflictReason::Filtered { name })?);
            }
        }
    }
    Ok(conflicts.into_iter().collect())
}

pub(crate) fn is_gitlink(state: Option<&PathState>) -> bool {
    state.is_some_and(|state| state.mode == GITLINK)
}

fn can_store(store: &PrivateStore, change: &PathChange, filter: &str) -> SandboxResult<bool> {
    if change.new.is_none() {
        // Git runs no filter to remove a file.
        return Ok(true);
    }
    let file = change.new.as_ref().filter(|state| state.mode != LINK);
    match (store.git.allowed.storable_content(filter), file) {
        (StorableContent::Nothing, _) => Ok(false),
        (StorableContent::Anything, _) | (StorableContent::Pointer, None) => Ok(true),
        (StorableContent::Pointer, Some(state)) => {
            let object = ObjectId::parse(&state.object)?;
            let contents = store.contents(&[object])?;
            let is_short = contents.iter().all(|it| it.size <= MAX_POINTER_SIZE);
            Ok(is_short && is_pointer(&store.blob(object)?))
        }
    }
}

/// A filtered file whose bytes differ from the commit has most likely been through its filter.
pub(crate) fn filter_reason(
    reason: ConflictReason,
    filters: Option<&BTreeSet<String>>,
) -> ConflictReason {
    match (reason, filters.and_then(BTreeSet::first)) {
        (ConflictReason::Changed, Some(name)) => ConflictReason::Filtered { name: name.clone() },
        (reason, _) => reason,
    }
}

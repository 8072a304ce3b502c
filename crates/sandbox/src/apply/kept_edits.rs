//! Files with uncommitted edits that the plan began with (`--base worktree`).
//!
//! The commit gets the plan's change merged onto the target's commit. The file gets the plan's
//! result, which contains the user's edits, so these stay uncommitted. Possible only while the file
//! is exactly as the plan found it.

use std::collections::BTreeMap;
use std::path::Path;

use cleveragents_ports::sandbox::SandboxResult;
use cleveragents_ports::targets::PathChange;

use crate::apply::path_inspector::{Modes, PathInspector};
use crate::apply::record::LocalApplyRecord;
use crate::apply::{apply_store, staging};
use crate::entries::GITLINK;
use crate::store::PrivateStore;

/// What the plan changed on the user's files, of which it has a snapshot.
pub(crate) struct SnapshotChange<'a> {
    /// The files as the plan found them.
    pub(crate) base: &'a str,
    pub(crate) result: &'a str,
    /// The working tree from which the snapshot was taken.
    pub(crate) root: &'a Path,
    pub(crate) modes: Modes,
}

impl SnapshotChange<'_> {
    /// Marks the changes of files that have uncommitted edits and are as the plan found them.
    /// Returns the states of these files before and after, by path.
    pub(crate) fn mark_kept_edits(
        &self,
        store: &PrivateStore,
        record: &LocalApplyRecord,
        changes: &mut [PathChange],
    ) -> SandboxResult<BTreeMap<Vec<u8>, PathChange>> {
        let seen = apply_store::changes(store, self.base, self.result)?;
        let seen: BTreeMap<&[u8], &PathChange> =
            seen.iter().map(|it| (it.path.as_bytes(), it)).collect();
        let found = changes.iter().filter_map(|change| {
            let seen = *seen.get(change.path.as_bytes())?;
            has_edits(change, seen).then(|| PathChange {
                keeps_edits: true,
                ..seen.clone()
            })
        });
        let mut edited: Vec<PathChange> = found.collect();
        if edited.is_empty() {
            return Ok(BTreeMap::new());
        }
        staging::stage(store, record, &mut edited, self.base, self.result)?;
        // Without a store, only equal bytes are the same file.
        let inspector = PathInspector::new(self.root, self.modes, &edited, None)?;
        let mut kept = BTreeMap::new();
        for change in changes {
            let path = change.path.as_bytes();
            let Some(edit) = edited.iter().find(|it| it.path == change.path) else {
                continue;
            };
            if inspector.matches(edit.old.as_ref(), &inspector.inspect(path)?) {
                change.keeps_edits = true;
                kept.insert(path.to_vec(), edit.clone());
            }
        }
        Ok(kept)
    }
}

/// The trees whose attributes both sides of a change are written with.
pub(crate) struct StagedTrees<'a> {
    pub(crate) old: &'a str,
    pub(crate) new: &'a str,
}

/// Writes both sides of the changes: of kept edits the files, of all others the commits.
pub(crate) fn stage_with_edits(
    store: &PrivateStore,
    record: &LocalApplyRecord,
    changes: &mut [PathChange],
    kept: &BTreeMap<Vec<u8>, PathChange>,
    trees: &StagedTrees<'_>,
) -> SandboxResult<()> {
    let on_disk = changes.iter().map(|change| {
        let edit = kept.get(change.path.as_bytes());
        edit.unwrap_or(change).clone()
    });
    let mut on_disk: Vec<PathChange> = on_disk.collect();
    staging::stage(store, record, &mut on_disk, trees.old, trees.new)?;
    for (change, written) in changes.iter_mut().zip(on_disk) {
        for (side, written) in [
            (&mut change.old, written.old),
            (&mut change.new, written.new),
        ] {
            if let Some(side) = side {
                side.content = written.and_then(|it| it.content);
            }
        }
    }
    Ok(())
}

/// Whether the plan found the file other than it is committed, with the same kinds of entries.
fn has_edits(change: &PathChange, seen: &PathChange) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else {
        return false;
    };
    let (Some(found), Some(made)) = (&seen.old, &seen.new) else {
        return false;
    };
    found.object != old.object
        && (found.mode, made.mode) == (old.mode, new.mode)
        && old.mode != GITLINK
        && new.mode != GITLINK
}

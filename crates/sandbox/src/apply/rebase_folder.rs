//! Merges a sandbox's result with the files that its folder has now.
//!
//! A folder has no commits, so its content is recorded as a tree in the sandbox's own store and
//! merged there with the sandbox's base and result. The user's files do not change.

use std::collections::BTreeSet;

use cleveragents_ports::sandbox::{SandboxBase, SandboxError, SandboxResult, TreeId};
use cleveragents_ports::targets::{RebaseRequest, TargetRebase, TargetResult};

use crate::apply::LocalTargets;
use crate::apply::apply_store::{self, TreeMerge};
use crate::apply::rebase::{gone_conflict, merge_conflicts};
use crate::capture::capture_resource;
use crate::entries::{TreeEntries, parent_folders};
use crate::files::{io_error, path_from_bytes};
use crate::record_tree::store_directory_list;
use crate::store::PrivateStore;
use crate::walk::TrackedPaths;

pub(crate) fn rebase(
    targets: &LocalTargets,
    request: &RebaseRequest,
) -> TargetResult<TargetRebase> {
    let resource = path_from_bytes(request.resource.as_bytes());
    if !resource.is_dir() {
        return Ok(TargetRebase::Blocked(vec![gone_conflict(request)]));
    }
    let resource = resource.canonicalize().map_err(io_error(resource))?;
    let mut sandbox = targets.open_sandbox(request.sandbox)?;
    let _held = sandbox.lock()?;
    let old = &request.base.tree;
    let found = capture_resource(&mut sandbox, &resource, old)?;
    if found == *old {
        return Ok(TargetRebase::Unchanged);
    }
    let store = &sandbox.store;
    let merged = apply_store::merge(store, old.files(), found.files(), request.tree.files())?;
    let tree = match merged {
        TreeMerge::Clean(files) => Ok(merge_directories(
            store,
            &files,
            [old, &found, &request.tree],
        )?),
        TreeMerge::Conflicts(paths) => Err(merge_conflicts(paths)?),
    };
    let base = SandboxBase {
        tree: found,
        commit: None,
    };
    Ok(match tree {
        Ok(tree) => TargetRebase::Merged { base, tree },
        Err(conflicts) => TargetRebase::Conflicting { base, conflicts },
    })
}

/// Returns the merged files with the merged empty directories of the three trees.
fn merge_directories(
    store: &PrivateStore,
    files: &str,
    trees: [&TreeId; 3],
) -> SandboxResult<TreeId> {
    let merged = TreeId::new(files, None)?;
    let [old, ours, theirs] = trees.map(|tree| store.entries_of(tree));
    let (old, ours, theirs) = (old?, ours?, theirs?);
    let (old, ours, theirs) = (
        &old.empty_directories,
        &ours.empty_directories,
        &theirs.empty_directories,
    );
    // A directory that either side removed or filled is gone.
    let is_kept = |path: &&Vec<u8>| {
        let is_in_both = ours.contains(*path) && theirs.contains(*path);
        is_in_both || !old.contains(*path)
    };
    let both: BTreeSet<Vec<u8>> = ours.union(theirs).filter(is_kept).cloned().collect();
    let directories = still_empty(&store.entries_of(&merged)?, both);
    let mut objects = store.new_objects();
    let list = store_directory_list(&mut objects, &directories)?;
    objects.persist()?;
    TreeId::new(files, list.as_deref()).map_err(SandboxError::from)
}

/// Returns the directories that are empty in the merged tree and not replaced by a file.
fn still_empty(entries: &TreeEntries, directories: BTreeSet<Vec<u8>>) -> BTreeSet<Vec<u8>> {
    let inner: BTreeSet<Vec<u8>> = directories
        .iter()
        .flat_map(|path| parent_folders(path).map(<[u8]>::to_vec))
        .collect();
    let is_empty = |path: &Vec<u8>| {
        let is_file = |path: &[u8]| entries.files.contains_key(path);
        !inner.contains(path)
            && !entries.has_paths_in(path)
            && !is_file(path)
            && !parent_folders(path).any(is_file)
    };
    directories.into_iter().filter(is_empty).collect()
}

//! Records a captured tree: its git tree, the list of its empty directories, and the cached entries
//! for the next capture.

use std::collections::BTreeSet;

use cleveragents_ports::sandbox::{SandboxResult, TreeId};

use crate::captured_tree::CapturedTree;
use crate::entries::{TreeChange, TreeEntries};
use crate::new_objects::NewObjects;
use crate::object_id::ObjectKind;
use crate::sandbox::LocalSandbox;
use crate::store::push_tree_line;
use crate::trees;

/// Up to this number, trees are written one by one; more are left to git.
const MAX_TREES: usize = 100;

/// Records the tree that results from applying this change to `known`. The objects are durable before
/// the id of the tree is returned.
pub(crate) fn record_tree(
    sandbox: &LocalSandbox,
    known: &mut CapturedTree,
    mut change: TreeChange,
    objects: NewObjects,
) -> SandboxResult<TreeId> {
    let tree = write_tree(sandbox, known, &mut change, objects)?;
    known.advance(&sandbox.layout.entries(), &tree, change)?;
    Ok(tree)
}

/// Stores the tree that `known` becomes by this change, and adds the trees of folders to the
/// change. Nothing is noted for the next capture.
pub(crate) fn write_tree(
    sandbox: &LocalSandbox,
    known: &mut CapturedTree,
    change: &mut TreeChange,
    mut objects: NewObjects,
) -> SandboxResult<TreeId> {
    let changed = changed_paths(&known.entries, change);
    let folders = trees::changed_folders(&changed);
    let list = if change.empty_directories == known.entries.empty_directories {
        known.tree.empty_directories().map(str::to_owned)
    } else {
        store_directory_list(&mut objects, &change.empty_directories)?
    };
    let files = if changed.is_empty() {
        known.tree.files().to_owned()
    } else if folders.len() > MAX_TREES {
        let lines = index_info_lines(sandbox, change, &changed);
        change.folders = folders.into_iter().map(|folder| (folder, None)).collect();
        sandbox.store.change_tree(known.tree.files(), &lines)?
    } else {
        known.entries.apply(change.clone());
        let root = trees::write(&mut known.entries, &folders, &mut objects)?;
        let trees = folders.into_iter().map(|folder| {
            let tree = known.entries.folders.get(&folder).copied();
            (folder, tree)
        });
        change.folders = trees.collect();
        root.to_string()
    };
    objects.persist()?;
    Ok(TreeId::new(&files, list.as_deref())?)
}

/// Returns the paths whose entry in a git tree differs.
fn changed_paths(before: &TreeEntries, change: &TreeChange) -> Vec<Vec<u8>> {
    let is_new = |path: &Vec<u8>| {
        let (old, new) = (before.files.get(path), change.files.get(path));
        let facts = |entry: &crate::entries::TreeEntry| (entry.mode, entry.object);
        old.map(facts) != new.map(facts)
    };
    let paths = change.deleted.iter().chain(change.files.keys());
    paths.filter(|path| is_new(path)).cloned().collect()
}

/// Returns the `update-index` lines for these paths. Removals come first to make room for additions.
fn index_info_lines(sandbox: &LocalSandbox, change: &TreeChange, changed: &[Vec<u8>]) -> Vec<u8> {
    let nothing = "0".repeat(sandbox.properties.object_format.id_length());
    let mut lines = Vec::new();
    for path in &change.deleted {
        push_tree_line(&mut lines, 0, &nothing, path);
    }
    for path in changed {
        if let Some(entry) = change.files.get(path) {
            push_tree_line(&mut lines, entry.mode, &entry.object.to_string(), path);
        }
    }
    lines
}

/// Stores the list of empty directories. Returns `None` for an empty list.
pub(crate) fn store_directory_list(
    objects: &mut NewObjects,
    directories: &BTreeSet<Vec<u8>>,
) -> SandboxResult<Option<String>> {
    if directories.is_empty() {
        return Ok(None);
    }
    let mut list = Vec::new();
    for path in directories {
        list.extend_from_slice(path);
        list.push(0);
    }
    let list = objects.put(ObjectKind::Blob, &list)?;
    Ok(Some(list.to_string()))
}

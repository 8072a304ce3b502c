//! Net changes between two captured trees, and trees without some of these changes.

use std::collections::{BTreeMap, BTreeSet};

use cleveragents_domain::ResourcePath;
use cleveragents_ports::sandbox::{DiffPart, NetChange, SandboxError, SandboxResult, TreeId};

use crate::attributes::{self, Attribute, Attributes};
use crate::changes::{contents, file_state};
use crate::diff;
use crate::entries::{TreeEntries, parent_folders};
use crate::layout::ContentConversion;
use crate::record_tree::store_directory_list;
use crate::sandbox::LocalSandbox;
use crate::store::push_tree_line;

pub(crate) fn changes(
    sandbox: &LocalSandbox,
    from: &TreeId,
    to: &TreeId,
) -> SandboxResult<Vec<NetChange>> {
    let stats = diff::stats_without_renames(&sandbox.store, from, to)?;
    let before = sandbox.store.entries_of(from)?;
    let after = sandbox.store.entries_of(to)?;
    let paths: Vec<Vec<u8>> = stats.iter().map(|it| it.path.as_bytes().to_vec()).collect();
    let paths: Vec<&Vec<u8>> = paths.iter().collect();
    let attributes = query_attributes(sandbox, &paths)?;
    let old = contents(sandbox, &before, &paths, &attributes)?;
    let new = contents(sandbox, &after, &paths, &attributes)?;
    let changes = stats.into_iter().map(|stat| {
        let path = stat.path.as_bytes().to_vec();
        let of = |entries: &TreeEntries, contents: &BTreeMap<&Vec<u8>, _>| {
            let entry = entries.files.get(&path)?;
            file_state(entry, contents.get(&path).copied())
        };
        NetChange {
            before: of(&before, &old),
            after: of(&after, &new),
            path: stat.path,
            lines: stat.lines,
        }
    });
    Ok(changes.collect())
}

fn query_attributes(
    sandbox: &LocalSandbox,
    paths: &[&Vec<u8>],
) -> SandboxResult<BTreeMap<Vec<u8>, Attributes>> {
    if sandbox.properties.conversion == ContentConversion::Never {
        return Ok(BTreeMap::new());
    }
    let paths: Vec<&[u8]> = paths.iter().map(|path| path.as_slice()).collect();
    attributes::query_attributes(|| sandbox.store.call([]), &paths, &Attribute::ALL)
}

pub(crate) fn tree_without(
    sandbox: &LocalSandbox,
    base: &TreeId,
    tree: &TreeId,
    part: &DiffPart,
) -> SandboxResult<TreeId> {
    match part {
        DiffPart::Paths(paths) => without_paths(sandbox, base, tree, paths),
        DiffPart::Patch(patch) => {
            let files = without_patch(sandbox, tree, patch)?;
            Ok(TreeId::new(&files, tree.empty_directories())?)
        }
    }
}

/// Reverses the patch in an index: touches no file and reads nothing that an agent wrote.
fn without_patch(sandbox: &LocalSandbox, tree: &TreeId, patch: &[u8]) -> SandboxResult<String> {
    let store = &sandbox.store;
    let index = store.next_index()?;
    store
        .call(["read-tree", tree.files()])
        .index(&index)
        .run()?;
    let options = ["apply", "--cached", "--reverse", "--whitespace=nowarn"];
    store.call(options).index(&index).run_with(patch)?;
    let files = store.call(["write-tree", "--missing-ok"]).index(&index);
    let files = files.line()?;
    store.keep_index(&index, &files)?;
    Ok(files)
}

/// Restores the paths to their state in the base.
fn without_paths(
    sandbox: &LocalSandbox,
    base: &TreeId,
    tree: &TreeId,
    paths: &[ResourcePath],
) -> SandboxResult<TreeId> {
    let before = sandbox.store.entries_of(base)?;
    let now = sandbox.store.entries_of(tree)?;
    let mut then = now.clone();
    let mut lines = Vec::new();
    let nothing = "0".repeat(sandbox.properties.object_format.id_length());
    // Removals come first, because a removed path may block an added one.
    for path in paths.iter().map(ResourcePath::as_bytes) {
        if then.files.remove(path).is_some() {
            push_tree_line(&mut lines, 0, &nothing, path);
        }
    }
    for path in paths.iter().map(ResourcePath::as_bytes) {
        if let Some(entry) = before.files.get(path) {
            check_room(&then, path)?;
            push_tree_line(&mut lines, entry.mode, &entry.object.to_string(), path);
            then.files.insert(path.to_vec(), *entry);
        }
    }
    let files = if lines.is_empty() {
        tree.files().to_owned()
    } else {
        sandbox.store.change_tree(tree.files(), &lines)?
    };
    let again = before.empty_directories.iter().filter(|directory| {
        let mut above = paths
            .iter()
            .flat_map(|path| parent_folders(path.as_bytes()));
        above.any(|folder| folder == directory.as_slice())
    });
    let empty: BTreeSet<Vec<u8>> = now
        .empty_directories
        .iter()
        .chain(again)
        .filter(|directory| check_room(&then, directory).is_ok())
        .cloned()
        .collect();
    let list = if empty == now.empty_directories {
        tree.empty_directories().map(str::to_owned)
    } else {
        let mut objects = sandbox.store.new_objects();
        let list = store_directory_list(&mut objects, &empty)?;
        objects.persist()?;
        list
    };
    Ok(TreeId::new(&files, list.as_deref())?)
}

/// Fails if a file is above `path` or inside it.
fn check_room(entries: &TreeEntries, path: &[u8]) -> SandboxResult<()> {
    let taken = parent_folders(path).find(|folder| entries.files.contains_key(*folder));
    let inside = entries
        .entries_in(path)
        .next()
        .map(|(inside, _)| inside.as_slice());
    match taken.or(inside) {
        None => Ok(()),
        Some(other) => Err(SandboxError::Malformed {
            what: format!(
                "{} cannot be restored while {} exists",
                String::from_utf8_lossy(path),
                String::from_utf8_lossy(other)
            ),
        }),
    }
}

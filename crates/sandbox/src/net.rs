//! What became of each path between two captured trees, and trees without a part of that.

use std::collections::{BTreeMap, BTreeSet};

use cleveragents_domain::ResourcePath;
use cleveragents_engine::ports::sandbox::{NetChange, Part, SandboxError, SandboxResult, TreeId};

use crate::attributes::{self, Attribute, Attributes};
use crate::changes::{contents, state};
use crate::diff;
use crate::entries::{Entries, folders_around};
use crate::layout::Conversion;
use crate::recording::put_list;
use crate::sandbox::LocalSandbox;
use crate::store::tree_line;

pub(crate) fn changes(
    sandbox: &LocalSandbox,
    from: &TreeId,
    to: &TreeId,
) -> SandboxResult<Vec<NetChange>> {
    let stats = diff::numbers_without_renames(&sandbox.store, from, to)?;
    let before = sandbox.store.entries_of(from)?;
    let after = sandbox.store.entries_of(to)?;
    let paths: Vec<Vec<u8>> = stats.iter().map(|it| it.path.as_bytes().to_vec()).collect();
    let paths: Vec<&Vec<u8>> = paths.iter().collect();
    let attributes = attributes_of(sandbox, &paths)?;
    let old = contents(sandbox, &before, &paths, &attributes)?;
    let new = contents(sandbox, &after, &paths, &attributes)?;
    let changes = stats.into_iter().map(|stat| {
        let path = stat.path.as_bytes().to_vec();
        let of = |entries: &Entries, contents: &BTreeMap<&Vec<u8>, _>| {
            let entry = entries.files.get(&path)?;
            state(entry, contents.get(&path).copied())
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

fn attributes_of(
    sandbox: &LocalSandbox,
    paths: &[&Vec<u8>],
) -> SandboxResult<BTreeMap<Vec<u8>, Attributes>> {
    if sandbox.made.conversion == Conversion::Never {
        return Ok(BTreeMap::new());
    }
    let paths: Vec<&[u8]> = paths.iter().map(|path| path.as_slice()).collect();
    attributes::of_paths(|| sandbox.store.call([]), &paths, &Attribute::ALL)
}

pub(crate) fn without(
    sandbox: &LocalSandbox,
    base: &TreeId,
    tree: &TreeId,
    part: &Part,
) -> SandboxResult<TreeId> {
    match part {
        Part::Paths(paths) => without_paths(sandbox, base, tree, paths),
        Part::Patch(patch) => {
            let files = without_patch(sandbox, tree, patch)?;
            Ok(TreeId::new(&files, tree.empty_directories())?)
        }
    }
}

/// The patch is taken back in an index: no file is touched, and nothing an agent wrote is read.
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

/// The paths become what they were in the base.
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
    let nothing = "0".repeat(sandbox.made.object_format.id_length());
    // What goes makes room for what comes.
    for path in paths.iter().map(ResourcePath::as_bytes) {
        if then.files.remove(path).is_some() {
            tree_line(&mut lines, 0, &nothing, path);
        }
    }
    for path in paths.iter().map(ResourcePath::as_bytes) {
        if let Some(entry) = before.files.get(path) {
            make_room(&then, path)?;
            tree_line(&mut lines, entry.mode, &entry.object.to_string(), path);
            then.files.insert(path.to_vec(), *entry);
        }
    }
    let files = match lines.is_empty() {
        true => tree.files().to_owned(),
        false => sandbox.store.change_tree(tree.files(), &lines)?,
    };
    let again = before.empty_directories.iter().filter(|directory| {
        let mut above = paths
            .iter()
            .flat_map(|path| folders_around(path.as_bytes()));
        above.any(|folder| folder == directory.as_slice())
    });
    let empty: BTreeSet<Vec<u8>> = now
        .empty_directories
        .iter()
        .chain(again)
        .filter(|directory| make_room(&then, directory).is_ok())
        .cloned()
        .collect();
    let list = match empty == now.empty_directories {
        true => tree.empty_directories().map(str::to_owned),
        false => {
            let mut objects = sandbox.store.new_objects();
            let list = put_list(&mut objects, &empty)?;
            objects.keep()?;
            list
        }
    };
    Ok(TreeId::new(&files, list.as_deref())?)
}

/// Whether something can stand at `path`: no file is above it and none is in it.
fn make_room(entries: &Entries, path: &[u8]) -> SandboxResult<()> {
    let taken = folders_around(path).find(|folder| entries.files.contains_key(*folder));
    let inside = entries
        .inside(path)
        .next()
        .map(|(inside, _)| inside.as_slice());
    match taken.or(inside) {
        None => Ok(()),
        Some(other) => Err(SandboxError::Malformed {
            what: format!(
                "{} cannot be put back while there is {}",
                String::from_utf8_lossy(path),
                String::from_utf8_lossy(other)
            ),
        }),
    }
}

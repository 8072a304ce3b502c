//! Computes the change of each path between two trees, with the state before and after.

use std::collections::{BTreeMap, BTreeSet};

use cleveragents_domain::{FileOperation, FileState};
use cleveragents_ports::sandbox::{FileChange, SandboxResult};

use crate::attributes::{Attributes, AutoCrlf};
use crate::convert;
use crate::entries::{Content, GITLINK, LINK, TreeEntries, TreeEntry};
use crate::files::resource_path;
use crate::object_id::ObjectId;
use crate::sandbox::LocalSandbox;

/// Returns the changes of these paths, sorted. A deleted file and a new file with the same content
/// become one rename.
pub(crate) fn file_changes(
    sandbox: &LocalSandbox,
    before: &TreeEntries,
    after: &TreeEntries,
    paths: &BTreeSet<&Vec<u8>>,
    attributes: &BTreeMap<Vec<u8>, Attributes>,
) -> SandboxResult<Vec<FileChange>> {
    let is_changed = |path: &Vec<u8>| match (before.files.get(path), after.files.get(path)) {
        (Some(old), Some(new)) => (old.mode, &old.object) != (new.mode, &new.object),
        (old, new) => old.is_some() || new.is_some(),
    };
    let paths: Vec<&Vec<u8>> = paths
        .iter()
        .copied()
        .filter(|path| is_changed(path))
        .collect();
    let contents = contents(sandbox, before, &paths, attributes)?;
    let renames = find_renames(before, after, &paths, &contents);
    let renamed: BTreeSet<&Vec<u8>> = renames.values().copied().collect();
    let mut changes = Vec::with_capacity(paths.len());
    for path in paths {
        let (old, new) = (before.files.get(path), after.files.get(path));
        if new.is_none() && renamed.contains(path) {
            continue;
        }
        let from = renames.get(path).copied();
        let old_path = from.unwrap_or(path);
        let old = from.map_or(old, |from| before.files.get(from));
        let operation = match (from, old, new) {
            (Some(from), _, _) => FileOperation::Rename {
                from: resource_path(from)?,
            },
            (None, None, _) => FileOperation::Create,
            (None, Some(_), None) => FileOperation::Delete,
            (None, Some(old), Some(new)) if is_mode_only(old, new) => FileOperation::Mode,
            (None, Some(_), Some(_)) => FileOperation::Modify,
        };
        let content = contents.get(old_path).copied();
        changes.push(FileChange {
            path: resource_path(path)?,
            operation,
            before: old.and_then(|entry| file_state(entry, content)),
            after: new.and_then(|entry| file_state(entry, entry.content)),
        });
    }
    Ok(changes)
}

fn is_mode_only(old: &TreeEntry, new: &TreeEntry) -> bool {
    old.object == new.object && (old.mode == LINK) == (new.mode == LINK)
}

pub(crate) fn file_state(entry: &TreeEntry, content: Option<Content>) -> Option<FileState> {
    let content = content?;
    Some(FileState {
        hash: blake3::Hash::from_bytes(content.hash).to_hex().to_string(),
        size: content.size,
        mode: entry.mode,
    })
}

/// Returns hash and size of the old content of the paths, read from the store if not yet known.
pub(crate) fn contents<'a>(
    sandbox: &LocalSandbox,
    before: &TreeEntries,
    paths: &[&'a Vec<u8>],
    attributes: &BTreeMap<Vec<u8>, Attributes>,
) -> SandboxResult<BTreeMap<&'a Vec<u8>, Content>> {
    let autocrlf = AutoCrlf::from_settings(&sandbox.properties.shaping);
    let mut contents = BTreeMap::new();
    let mut missing: Vec<(&Vec<u8>, ObjectId)> = Vec::new();
    for path in paths {
        let Some(entry) = before.files.get(*path) else {
            continue;
        };
        let attributes = attributes.get(*path);
        let converts = entry.mode != LINK
            && attributes.is_some_and(|attributes| convert::may_convert(attributes, autocrlf));
        if entry.mode == GITLINK {
            // A submodule has no content of its own; it names a commit of another repository.
            let commit = entry.object.to_string();
            contents.insert(*path, convert::hash_content(commit.as_bytes()));
        } else if let Some(content) = entry.content {
            contents.insert(*path, content);
        } else if converts {
            let bytes = convert::from_git(sandbox, path, entry.object)?;
            contents.insert(*path, convert::hash_content(&bytes));
        } else {
            missing.push((path, entry.object));
        }
    }
    let objects: Vec<ObjectId> = missing.iter().map(|(_, object)| *object).collect();
    let found = sandbox.store.contents(&objects)?;
    contents.extend(missing.into_iter().map(|(path, _)| path).zip(found));
    Ok(contents)
}

/// Maps the new path to the old path of files that moved with unchanged content. Of several
/// candidates, one with the same name wins, otherwise the first.
fn find_renames<'a>(
    before: &TreeEntries,
    after: &TreeEntries,
    paths: &[&'a Vec<u8>],
    contents: &BTreeMap<&'a Vec<u8>, Content>,
) -> BTreeMap<&'a Vec<u8>, &'a Vec<u8>> {
    let mut gone: BTreeMap<(ObjectId, bool), Vec<&'a Vec<u8>>> = BTreeMap::new();
    for path in paths {
        // All empty files have the same content, so they prove no rename.
        let is_empty = contents.get(path).is_none_or(|content| content.size == 0);
        if let (Some(old), None) = (before.files.get(*path), after.files.get(*path))
            && !is_empty
        {
            let key = (old.object, old.mode == LINK);
            gone.entry(key).or_default().push(path);
        }
    }
    let mut renames = BTreeMap::new();
    for path in paths {
        let (None, Some(new)) = (before.files.get(*path), after.files.get(*path)) else {
            continue;
        };
        let Some(candidates) = gone.get_mut(&(new.object, new.mode == LINK)) else {
            continue;
        };
        let same_name = candidates
            .iter()
            .position(|old| file_name(old) == file_name(path));
        if !candidates.is_empty() {
            renames.insert(*path, candidates.remove(same_name.unwrap_or(0)));
        }
    }
    renames
}

fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

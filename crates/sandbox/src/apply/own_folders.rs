//! Records the folders that an apply creates in the user's tree, before its first change. An abort
//! removes only these, and only if they are empty.

use std::collections::BTreeSet;

use cleveragents_domain::{AbsolutePath, ResourcePath};
use cleveragents_ports::sandbox::SandboxResult;
use cleveragents_ports::targets::PathChange;

use crate::apply::record::LocalApplyRecord;
use crate::entries::parent_folders;
use crate::files::{path_from_bytes, resource_path};

/// A root, and the folders that the apply creates below it.
pub(crate) type NewFolders = (AbsolutePath, Vec<ResourcePath>);

/// Records the missing folders that these changes need. Does nothing once the apply has begun,
/// because it may have created some already.
pub(crate) fn note<'a>(
    record: &LocalApplyRecord,
    roots: impl IntoIterator<Item = &'a AbsolutePath>,
    changes: &[PathChange],
) -> SandboxResult<()> {
    if record.has_begun() {
        return Ok(());
    }
    let mut noted: Vec<NewFolders> = Vec::new();
    for root in roots {
        let at = path_from_bytes(root.as_bytes());
        let is_missing = |folder: &&[u8]| {
            let found = at.join(path_from_bytes(folder)).symlink_metadata();
            !found.is_ok_and(|found| found.is_dir())
        };
        let added = changes.iter().filter(|change| change.old.is_none());
        let folders: BTreeSet<&[u8]> = added
            .flat_map(|change| parent_folders(change.path.as_bytes()))
            .collect();
        let missing = folders.into_iter().filter(is_missing);
        let missing = missing.map(resource_path).collect::<SandboxResult<_>>()?;
        noted.push((root.clone(), missing));
    }
    record.own_folders.write(&noted)
}

/// Returns the recorded folders below this root. `None` if the apply has no such record.
pub(crate) fn load(
    record: &LocalApplyRecord,
    root: &AbsolutePath,
) -> SandboxResult<Option<BTreeSet<Vec<u8>>>> {
    let Some(noted) = record.own_folders.read()? else {
        return Ok(None);
    };
    let here = noted.into_iter().find(|(at, _)| at == root);
    let folders = here.map(|(_, folders)| folders).unwrap_or_default();
    let folders = folders.iter().map(|path| path.as_bytes().to_vec());
    Ok(Some(folders.collect()))
}

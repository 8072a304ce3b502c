//! A sandbox of a folder: a copy without what `.gitignore` files name, its base kept as a tree in a
//! store of its own. From there on it is like any other.

use std::os::fd::AsFd;
use std::path::Path;

use cleveragents_beneath::reach::make_folder;
use cleveragents_engine::ports::sandbox::{
    ObjectFormat, Omitted, OmittedWhy, SandboxError, SandboxResult, Touched, Warning,
};

use crate::beneath::open_root;
use crate::entries::Entries;
use crate::files::{Sync, create_private_folder, failed, path_of, replace_quickly, resource_path};
use crate::git::Git;
use crate::layout::{Layout, Made, Marker};
use crate::making::{begin, include};
use crate::placing::copy;
use crate::walk::Walker;
use crate::{capture, restore};

pub(crate) fn make(
    git: &Git,
    layout: &Layout,
    marker: &Marker,
    locks: &Path,
) -> SandboxResult<Made> {
    let resource = path_of(marker.resource.as_bytes());
    let resource = resource.canonicalize().map_err(failed(resource))?;
    if !resource.is_dir() {
        return Err(SandboxError::NotAFolder { path: resource });
    }
    let mut sandbox = begin(git, layout, marker, locks, ObjectFormat::Sha1)?;
    let rules = sandbox.rules()?;
    let nothing = Entries::default();
    let mut walker = Walker::new(&resource, &rules, &nothing)?;
    walker.all()?;
    let walked = walker.walked;
    create_private_folder(&layout.tree())?;
    let (from, to) = (open_root(&resource)?, open_root(&layout.tree())?);
    for (path, stat) in &walked.files {
        copy(from.as_fd(), to.as_fd(), path, stat)?;
    }
    for path in &walked.empty_directories {
        let made = make_folder(to.as_fd(), path);
        made.map_err(|error| crate::beneath::failed(path_of(path), error))?;
    }
    replace_quickly(&layout.tree().join(".git"), restore::GIT_FILE, Sync::No)?;
    let trusted = &marker.trusted_includes;
    let mut warnings = Vec::new();
    warnings.extend(include(&sandbox, &resource, &rules, &nothing, trusted)?);
    restore::give_to_commands(&sandbox, &layout.tree())?;
    let base = sandbox.made.tree.clone();
    let captured = capture::capture(&mut sandbox, &base, &Touched::Unknown)?;
    let mut omitted = Vec::new();
    for (path, why) in walked.omitted {
        let path = resource_path(&path)?;
        omitted.push(Omitted { path, why });
    }
    if resource.join(".git").symlink_metadata().is_ok() {
        let (path, why) = (resource_path(b".git")?, OmittedWhy::NestedRepository);
        omitted.push(Omitted { path, why });
    }
    if !omitted.is_empty() {
        warnings.push(Warning::Omitted(omitted));
    }
    Ok(Made {
        tree: captured.tree,
        warnings,
        ..sandbox.made
    })
}

//! Creates a sandbox of a folder: a copy without files that `.gitignore` names, with its base
//! stored as a tree in a store of its own. After that it is like any other sandbox.

use std::os::fd::AsFd;
use std::path::Path;

use cleveragents_ports::sandbox::{
    ObjectFormat, OmissionReason, OmittedPath, SandboxError, SandboxResult, TouchedPaths, Warning,
};
use cleveragents_safe_fs::file_access::make_folder;

use crate::entries::TreeEntries;
use crate::files::{
    Sync, create_private_folder, io_error, path_from_bytes, replace_with_sync, resource_path,
};
use crate::git::Git;
use crate::layout::{Layout, Marker, SandboxProperties};
use crate::make_common::{copy_included_files, create_empty_sandbox};
use crate::safe_fs::open_root;
use crate::tree_files::copy;
use crate::walk::SandboxWalker;
use crate::{capture, restore};

pub(crate) fn make(
    git: &Git,
    layout: &Layout,
    marker: &Marker,
    locks: &Path,
) -> SandboxResult<SandboxProperties> {
    let resource = path_from_bytes(marker.resource.as_bytes());
    let resource = resource.canonicalize().map_err(io_error(resource))?;
    if !resource.is_dir() {
        return Err(SandboxError::NotAFolder { path: resource });
    }
    let mut sandbox = create_empty_sandbox(git, layout, marker, locks, ObjectFormat::Sha1)?;
    let rules = sandbox.ignore_rules()?;
    let nothing = TreeEntries::default();
    let mut walker = SandboxWalker::new(&resource, &rules, &nothing)?;
    walker.walk_all()?;
    let walked = walker.result;
    create_private_folder(&layout.tree())?;
    let (from, to) = (open_root(&resource)?, open_root(&layout.tree())?);
    for (path, stat) in &walked.files {
        copy(from.as_fd(), to.as_fd(), path, stat)?;
    }
    for path in &walked.empty_directories {
        let made = make_folder(to.as_fd(), path);
        made.map_err(|error| crate::safe_fs::errno_error(path_from_bytes(path), error))?;
    }
    replace_with_sync(&layout.tree().join(".git"), restore::GIT_FILE, Sync::No)?;
    let trusted = &marker.trusted_includes;
    let mut warnings = Vec::new();
    warnings.extend(copy_included_files(
        &sandbox, &resource, &rules, &nothing, trusted,
    )?);
    restore::chown_for_commands(&sandbox, &layout.tree())?;
    let base = sandbox.properties.tree.clone();
    let captured = capture::capture(&mut sandbox, &base, &TouchedPaths::Unknown)?;
    let mut omitted = Vec::new();
    for (path, why) in walked.omitted {
        let path = resource_path(&path)?;
        omitted.push(OmittedPath { path, why });
    }
    if resource.join(".git").symlink_metadata().is_ok() {
        let (path, why) = (resource_path(b".git")?, OmissionReason::NestedRepository);
        omitted.push(OmittedPath { path, why });
    }
    if !omitted.is_empty() {
        warnings.push(Warning::Omitted(omitted));
    }
    Ok(SandboxProperties {
        tree: captured.tree,
        warnings,
        ..sandbox.properties
    })
}

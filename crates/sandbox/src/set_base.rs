//! Gives a sandbox another base: the commit or the folder content that its result was moved onto.
//!
//! The marker is written last, so a killed call is repeated from the start (law 9).

use std::path::Path;

use cleveragents_domain::ResourceType;
use cleveragents_ports::sandbox::{SandboxBase, SandboxResult};

use crate::files::{io_error, path_from_bytes};
use crate::layout::ContentConversion;
use crate::make_git::{add_file_warnings, borrow_objects, write_agent_head};
use crate::repository::UserRepository;
use crate::sandbox::LocalSandbox;
use crate::{ownership, references};

/// The caller must hold the sandbox lock.
pub(crate) fn set_base(mut sandbox: LocalSandbox, base: &SandboxBase) -> SandboxResult<()> {
    if sandbox.marker.resource_type == ResourceType::GitCheckout {
        adopt_commit(&mut sandbox, base)?;
    }
    let git = sandbox.layout.git();
    ownership::make_readable(&git).map_err(io_error(&git))?;
    sandbox.properties.tree = base.tree.clone();
    sandbox.properties.base_commit.clone_from(&base.commit);
    let mut marker = sandbox.marker.clone();
    marker.made = Some(sandbox.properties);
    marker.write(&sandbox.layout)
}

/// Applies the settings and attributes of the user's repository to the new base.
fn adopt_commit(sandbox: &mut LocalSandbox, base: &SandboxBase) -> SandboxResult<()> {
    let resource = path_from_bytes(sandbox.marker.resource.as_bytes()).to_owned();
    let repository = UserRepository::find_cached(&sandbox.store.git, &resource)?;
    borrow_objects(sandbox, &repository)?;
    sandbox.set_shaping(repository.settings.shaping.clone());
    sandbox.set_attributes(base.tree.files().to_owned());
    sandbox.properties.conversion = ContentConversion::Never;
    let entries = sandbox.store.entries_of(&base.tree)?;
    // Warnings are only given at creation; here the call updates whether git converts content.
    add_file_warnings(sandbox, &repository, &entries, &mut Vec::new())?;
    write_agent_index(sandbox, base)?;
    write_agent_head(sandbox, base.commit.as_deref())?;
    match &base.commit {
        Some(commit) => update_base_ref(sandbox, &repository, commit),
        None => Ok(()),
    }
}

/// Writes an index of the base, so that an agent's git shows the result as changes.
fn write_agent_index(sandbox: &LocalSandbox, base: &SandboxBase) -> SandboxResult<()> {
    let index = sandbox.store.next_index()?;
    let call = sandbox.store.call(["read-tree", base.tree.files()]);
    call.index(&index).run()?;
    let agent_index = sandbox.store.dir.join("index");
    let rename = |from: &Path, to: &Path| std::fs::rename(from, to).map_err(io_error(to));
    rename(&index, &agent_index)
}

/// Moves the ref of the base, which protects the new commit from here on.
fn update_base_ref(
    sandbox: &LocalSandbox,
    repository: &UserRepository,
    commit: &str,
) -> SandboxResult<()> {
    let (plan, id) = (sandbox.marker.plan, sandbox.marker.id);
    let _turn = references::lock_repository(&sandbox.locks, repository)?;
    // In this order one of both refs protects the commit at every moment.
    references::set(repository, &references::base_ref(plan, id), commit)?;
    references::delete_locked(
        &sandbox.locks,
        repository,
        &references::next_base_ref(plan, id),
    )
}

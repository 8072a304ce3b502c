//! Gives a sandbox another base: the commit its result was moved onto.
//!
//! The marker is written last, so a call that was killed is made again from the beginning (law 9).

use std::path::Path;

use cleveragents_engine::ports::sandbox::{SandboxBase, SandboxResult};

use crate::files::{failed, path_of};
use crate::layout::Conversion;
use crate::make_git::{borrow_from, show_agents_head, warn_of_files};
use crate::repository::Repository;
use crate::sandbox::LocalSandbox;
use crate::{ownership, references};

/// The sandbox must be held.
pub(crate) fn adopt(mut sandbox: LocalSandbox, base: &SandboxBase) -> SandboxResult<()> {
    let resource = path_of(sandbox.marker.resource.as_bytes()).to_owned();
    let repository = Repository::known(&sandbox.store.git, &resource)?;
    borrow_from(&sandbox, &repository)?;
    sandbox.set_shaping(repository.settings.shaping.clone());
    sandbox.set_attributes(base.tree.files().to_owned());
    sandbox.made.conversion = Conversion::Never;
    let entries = sandbox.store.entries_of(&base.tree)?;
    // Warnings are given when a sandbox is made; what stays of them here is whether git converts.
    warn_of_files(&mut sandbox, &repository, &entries, &mut Vec::new())?;
    show_agents_index(&sandbox, base)?;
    show_agents_head(&sandbox, base.commit.as_deref())?;
    if let Some(commit) = &base.commit {
        keep(&sandbox, &repository, commit)?;
    }
    let git = sandbox.layout.git();
    ownership::open_for_reading(&git).map_err(failed(&git))?;
    sandbox.made.tree = base.tree.clone();
    sandbox.made.base_commit.clone_from(&base.commit);
    let mut marker = sandbox.marker.clone();
    marker.made = Some(sandbox.made);
    marker.write(&sandbox.layout)
}

/// An index of the base, so that an agent's git shows the result as changes.
fn show_agents_index(sandbox: &LocalSandbox, base: &SandboxBase) -> SandboxResult<()> {
    let index = sandbox.store.next_index()?;
    let call = sandbox.store.call(["read-tree", base.tree.files()]);
    call.index(&index).run()?;
    let shown = sandbox.store.dir.join("index");
    let rename = |from: &Path, to: &Path| std::fs::rename(from, to).map_err(failed(to));
    rename(&index, &shown)
}

/// From here on the ref of the base keeps the new one.
fn keep(sandbox: &LocalSandbox, repository: &Repository, commit: &str) -> SandboxResult<()> {
    let (plan, id) = (sandbox.marker.plan, sandbox.marker.id);
    let _turn = references::hold(&sandbox.locks, repository)?;
    references::set(repository, &references::base(plan, id), commit)?;
    references::delete_in_turn(&sandbox.locks, repository, &references::next_base(plan, id))
}

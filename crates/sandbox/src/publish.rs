//! Publishes a captured tree as a commit in the user's repository, under our own refs.

use cleveragents_domain::ResourceType;
use cleveragents_ports::sandbox::{
    CommitMetadata, PublishedCommit, SandboxError, SandboxResult, TreeId,
};

use crate::files::{path_from_bytes, remove, system_time};
use crate::git_call::GitCall;
use crate::object_id::ObjectKind;
use crate::pack;
use crate::references;
use crate::repository::UserRepository;
use crate::sandbox::LocalSandbox;

pub(crate) fn publish(
    sandbox: &LocalSandbox,
    tree: &TreeId,
    commit_metadata: &CommitMetadata,
) -> SandboxResult<PublishedCommit> {
    if sandbox.marker.resource_type != ResourceType::GitCheckout {
        return Err(SandboxError::NoRepository);
    }
    let resource = path_from_bytes(sandbox.marker.resource.as_bytes());
    let repository = UserRepository::find_cached(&sandbox.store.git, resource)?;
    let commit = make_commit(sandbox, tree, commit_metadata)?;
    let mut revisions = format!("{commit}\n");
    if let Some(base) = &sandbox.properties.base_commit {
        revisions.push_str(&format!("^{base}\n"));
    }
    let owner = sandbox.marker.id.to_string();
    let folder = sandbox.layout.publishing();
    let pack = pack::write(&sandbox.store, &folder, &revisions, &owner)?;
    let reference = references::published_ref(sandbox.marker.plan);
    sandbox.store.check_stop()?;
    let _turn = references::lock_repository(&sandbox.locks, &repository)?;
    // Last check: from here on the call completes, so the user's repository gets everything or
    // nothing.
    sandbox.store.check_stop()?;
    let keep = pack.install_in(
        &repository,
        &owner,
        system_time(sandbox.marker.id.created_at()),
    )?;
    references::set(&repository, &reference, &commit)?;
    // From here on the ref protects the objects.
    remove(&keep)?;
    remove(&folder)?;
    Ok(PublishedCommit { reference, commit })
}

/// Written without git: git skips an object that the user's repository already has, but there it may
/// belong to another plan whose pack is about to be withdrawn.
fn make_commit(
    sandbox: &LocalSandbox,
    tree: &TreeId,
    text: &CommitMetadata,
) -> SandboxResult<String> {
    let mut objects = sandbox.store.new_objects();
    let content = commit_content(tree, sandbox.properties.base_commit.as_deref(), text);
    let commit = objects.put(ObjectKind::Commit, content.as_bytes())?;
    objects.persist()?;
    Ok(commit.to_string())
}

fn commit_content(tree: &TreeId, parent: Option<&str>, text: &CommitMetadata) -> String {
    let parent = parent.map(|parent| format!("parent {parent}\n"));
    // A name or address must not end its field or line.
    let clean = |part: &str| part.replace(['<', '>', '\n', '\0'], "").trim().to_owned();
    let (name, email) = (clean(&text.name), clean(&text.email));
    let seconds = text.seconds;
    let identity = format!("{name} <{email}> {seconds} +0000");
    let message = text.message.trim_end_matches('\n');
    format!(
        "tree {}\n{}author {identity}\ncommitter {identity}\n\n{message}\n",
        tree.files(),
        parent.unwrap_or_default()
    )
}

/// Sets author, committer and date of a commit or ref update.
pub(crate) fn with_identity(call: GitCall, commit_metadata: &CommitMetadata) -> GitCall {
    let date = format!("@{} +0000", commit_metadata.seconds);
    ["AUTHOR", "COMMITTER"].iter().fold(call, |call, identity| {
        call.variable(&format!("GIT_{identity}_NAME"), &commit_metadata.name)
            .variable(&format!("GIT_{identity}_EMAIL"), &commit_metadata.email)
            .variable(&format!("GIT_{identity}_DATE"), &date)
    })
}

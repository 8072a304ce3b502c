//! Publish: a captured tree becomes a commit in the user's repository, under our own refs.

use cleveragents_domain::ResourceType;
use cleveragents_engine::ports::sandbox::{
    CommitText, Published, SandboxError, SandboxResult, TreeId,
};

use crate::files::{path_of, remove, system_time};
use crate::git::Call;
use crate::object_id::ObjectKind;
use crate::pack;
use crate::references;
use crate::repository::Repository;
use crate::sandbox::LocalSandbox;

pub(crate) fn publish(
    sandbox: &LocalSandbox,
    tree: &TreeId,
    words: &CommitText,
) -> SandboxResult<Published> {
    if sandbox.marker.resource_type != ResourceType::GitCheckout {
        return Err(SandboxError::NoRepository);
    }
    let resource = path_of(sandbox.marker.resource.as_bytes());
    let repository = Repository::known(&sandbox.store.git, resource)?;
    let commit = make_commit(sandbox, tree, words)?;
    let mut wanted = format!("{commit}\n");
    if let Some(base) = &sandbox.made.base_commit {
        wanted.push_str(&format!("^{base}\n"));
    }
    let whose = sandbox.marker.id.to_string();
    let folder = sandbox.layout.publishing();
    let pack = pack::write(&sandbox.store, &folder, &wanted, &whose)?;
    let reference = references::published(sandbox.marker.plan);
    sandbox.store.check_stop()?;
    let _turn = references::hold(&sandbox.locks, &repository)?;
    // From here on it is finished: the user's repository has all of it or nothing.
    sandbox.store.check_stop()?;
    let keep = pack.give_to(
        &repository,
        &whose,
        system_time(sandbox.marker.id.made_at()),
    )?;
    references::set(&repository, &reference, &commit)?;
    // From here on the ref keeps the objects.
    remove(&keep)?;
    remove(&folder)?;
    Ok(Published { reference, commit })
}

/// Written without git: git leaves out an object that the user's repository has, and there it may
/// be another plan's, about to be withdrawn.
fn make_commit(sandbox: &LocalSandbox, tree: &TreeId, text: &CommitText) -> SandboxResult<String> {
    let mut objects = sandbox.store.new_objects();
    let content = commit_content(tree, sandbox.made.base_commit.as_deref(), text);
    let commit = objects.put(ObjectKind::Commit, content.as_bytes())?;
    objects.keep()?;
    Ok(commit.to_string())
}

fn commit_content(tree: &TreeId, parent: Option<&str>, text: &CommitText) -> String {
    let parent = parent.map(|parent| format!("parent {parent}\n"));
    // A name or address must not end its field or line.
    let clean = |part: &str| part.replace(['<', '>', '\n', '\0'], "").trim().to_owned();
    let (name, email) = (clean(&text.name), clean(&text.email));
    let seconds = text.seconds;
    let who = format!("{name} <{email}> {seconds} +0000");
    let message = text.message.trim_end_matches('\n');
    format!(
        "tree {}\n{}author {who}\ncommitter {who}\n\n{message}\n",
        tree.files(),
        parent.unwrap_or_default()
    )
}

/// Says who makes a commit or moves a ref, and when.
pub(crate) fn signed_by(call: Call, words: &CommitText) -> Call {
    let date = format!("@{} +0000", words.seconds);
    ["AUTHOR", "COMMITTER"].iter().fold(call, |call, who| {
        call.variable(&format!("GIT_{who}_NAME"), &words.name)
            .variable(&format!("GIT_{who}_EMAIL"), &words.email)
            .variable(&format!("GIT_{who}_DATE"), &date)
    })
}

//! Publish: a captured tree becomes a commit in the user's repository, under our own refs.

use cleveragents_domain::ResourceType;
use cleveragents_engine::ports::sandbox::{
    CommitText, Published, SandboxError, SandboxResult, TreeId,
};

use crate::files::{path_of, remove, system_time};
use crate::git::Call;
use crate::pack;
use crate::references;
use crate::repository::{Repository, text};
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

fn make_commit(sandbox: &LocalSandbox, tree: &TreeId, words: &CommitText) -> SandboxResult<String> {
    let call = sandbox.store.call(["commit-tree", tree.files()]);
    let call = match &sandbox.made.base_commit {
        Some(base) => call.argument("-p").argument(base),
        None => call,
    };
    let call = signed_by(call, words);
    Ok(text(&call.run_with(words.message.as_bytes())?))
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

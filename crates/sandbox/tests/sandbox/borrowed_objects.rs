//! Unreferenced objects of the user's repository: git may collect them at any time, so a sandbox must
//! not rely on them.

use cleveragents_domain::{BaseSource, ResourceType};
use cleveragents_ports::sandbox::{CommitMetadata, Sandboxes};
use cleveragents_ports::stop::StopSignal;

use crate::environment::{SandboxTestWorld, append, capture, listing, write};

#[test]
fn a_sandbox_of_the_working_tree_keeps_files_that_were_only_staged() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    write(&repository.join("staged"), b"only in the index\n");
    world.git(&repository, &["add", "staged"]);
    let (created, mut sandbox) =
        world.create_from(&repository, ResourceType::GitCheckout, BaseSource::Worktree);
    world.git(&repository, &["reset", "-q", "--hard"]);
    world.git(&repository, &["gc", "-q", "--prune=now"]);
    let expected = listing(&created.tree);
    write(&created.tree.join("staged"), b"changed\n");
    let captured = capture(&mut *sandbox);
    let diff = sandbox
        .diff(&created.base, &captured.tree, &[], &StopSignal::new())
        .unwrap();
    let patch = String::from_utf8(diff.patch).unwrap();
    assert!(patch.contains("-only in the index\n"), "{patch}");
    sandbox.restore(&created.base, &StopSignal::new()).unwrap();
    assert_eq!(listing(&created.tree), expected);
}

#[test]
fn a_commit_published_by_another_plan_is_recreated() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    let text = CommitMetadata {
        name: "CleverAgents".into(),
        email: "agents@localhost".into(),
        seconds: 1_700_000_000,
        message: "the same".into(),
    };
    let mut commits = Vec::new();
    let mut trees = Vec::new();
    for _ in 0..2 {
        let new = world.new_sandbox(&repository, ResourceType::GitCheckout, BaseSource::Head);
        let created = world.sandboxes.create(&new).unwrap();
        let mut sandbox = world.sandboxes.open(new.id).unwrap();
        append(&created.tree.join("a"), b"2\n");
        let captured = capture(&mut *sandbox);
        let published = sandbox.publish(&captured.tree, &text, &StopSignal::new());
        commits.push(published.unwrap().commit);
        trees.push((created.tree, new));
    }
    assert_eq!(commits[0], commits[1]);
    for (_, new) in &trees {
        world.sandboxes.withdraw(&new.resource, new.plan).unwrap();
    }
    world.git(&repository, &["gc", "-q", "--prune=now"]);
    for (tree, _) in &trees {
        let store = tree.with_file_name("git");
        let commit = world.git(&store, &["cat-file", "-t", &commits[0]]);
        assert_eq!(commit, "commit", "{}", store.display());
    }
}

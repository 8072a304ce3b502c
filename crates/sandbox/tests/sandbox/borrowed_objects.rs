//! Objects of the user's repository that nothing there refers to: git collects them one day, and a
//! sandbox must not rely on them.

use cleveragents_domain::{Base, ResourceType};
use cleveragents_engine::ports::sandbox::{CommitText, Sandboxes};
use cleveragents_engine::ports::stop::Stop;

use crate::environment::{World, append, capture, listing, write};

#[test]
fn a_sandbox_of_the_working_tree_keeps_files_that_were_only_staged() {
    let world = World::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    write(&repository.join("staged"), b"only in the index\n");
    world.git(&repository, &["add", "staged"]);
    let (created, mut sandbox) =
        world.create_from(&repository, ResourceType::GitCheckout, Base::Worktree);
    world.git(&repository, &["reset", "-q", "--hard"]);
    world.git(&repository, &["gc", "-q", "--prune=now"]);
    let expected = listing(&created.tree);
    write(&created.tree.join("staged"), b"changed\n");
    let captured = capture(&mut *sandbox);
    let diff = sandbox
        .diff(&created.base, &captured.tree, &[], &Stop::new())
        .unwrap();
    let patch = String::from_utf8(diff.patch).unwrap();
    assert!(patch.contains("-only in the index\n"), "{patch}");
    sandbox.restore(&created.base, &Stop::new()).unwrap();
    assert_eq!(listing(&created.tree), expected);
}

#[test]
fn a_commit_that_another_plan_has_published_is_made_again() {
    let world = World::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    let text = CommitText {
        name: "CleverAgents".into(),
        email: "agents@localhost".into(),
        seconds: 1_700_000_000,
        message: "the same".into(),
    };
    let mut commits = Vec::new();
    let mut trees = Vec::new();
    for _ in 0..2 {
        let new = world.new_sandbox(&repository, ResourceType::GitCheckout, Base::Head);
        let created = world.sandboxes.create(&new).unwrap();
        let mut sandbox = world.sandboxes.open(new.id).unwrap();
        append(&created.tree.join("a"), b"2\n");
        let captured = capture(&mut *sandbox);
        let published = sandbox.publish(&captured.tree, &text, &Stop::new());
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

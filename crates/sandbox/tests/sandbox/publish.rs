//! Publish: the result outlives its sandbox, and nothing else of the user's changes.

use std::fs;
use std::path::{Path, PathBuf};

use cleveragents_domain::{BaseSource, ResourceType};
use cleveragents_ports::sandbox::{
    CommitMetadata, CreatedSandbox, PublishedCommit, Sandbox, SandboxResult, Sandboxes, TreeId,
};
use cleveragents_ports::stop::StopSignal;

use crate::environment::{SandboxTestWorld, TreeListing, append, capture, listing, write};

fn commit_metadata(message: &str) -> CommitMetadata {
    CommitMetadata {
        name: "CleverAgents".into(),
        email: "agents@localhost".into(),
        seconds: 1_700_000_000,
        message: message.into(),
    }
}

fn publish(sandbox: &dyn Sandbox, tree: &TreeId, message: &str) -> SandboxResult<PublishedCommit> {
    sandbox.publish(tree, &commit_metadata(message), &StopSignal::new())
}

/// Checks parent, message and files of the commit.
fn check_commit(
    world: &SandboxTestWorld,
    repository: &Path,
    commit: &str,
    (created, expected): (&CreatedSandbox, &TreeListing),
) {
    let parents = world.git(repository, &["log", "-1", "--format=%P", commit]);
    assert_eq!(
        (!parents.is_empty()).then_some(parents),
        created.base_commit,
        "{commit}"
    );
    let text = world.git(repository, &["log", "-1", "--format=%an %ct %s", commit]);
    assert_eq!(text, "CleverAgents 1700000000 second");
    let out = world.path("out");
    let arguments = ["worktree", "add", "-q", out.to_str().unwrap(), commit];
    world.git(repository, &arguments);
    assert_eq!(listing(&out), *expected, "{commit}");
    world.git(
        repository,
        &["worktree", "remove", "-f", out.to_str().unwrap()],
    );
}

/// A git that is killed while it writes one of our refs leaves its lock.
#[test]
fn locks_of_our_refs_that_a_killed_git_left_are_removed() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n")]);
    let new = world.new_sandbox(&repository, ResourceType::GitCheckout, BaseSource::Head);
    let created = world.sandboxes.create(&new).unwrap();
    let mut sandbox = world.sandboxes.open(new.id).unwrap();
    append(&created.tree.join("a"), b"2\n");
    let captured = capture(&mut *sandbox);
    let lock = repository.join(format!(".git/refs/cleveragents/plan-{}.lock", new.plan));
    for content in ["", "1234"] {
        write(&lock, content.as_bytes());
        let published = publish(&*sandbox, &captured.tree, "first").unwrap();
        assert!(!lock.exists());
        let found = world.git(&repository, &["rev-parse", &published.reference]);
        assert_eq!(found, published.commit);
    }
    // Deleting a ref locks the packed refs as well.
    let packed = ["packed-refs.lock", "packed-refs.new"].map(|it| repository.join(".git").join(it));
    world.git(&repository, &["pack-refs", "--all"]);
    let deleting = deletion_note_path(&world);
    write(&deleting, b"");
    packed.iter().for_each(|it| write(it, b""));
    let resource = &new.resource;
    world.sandboxes.withdraw(resource, new.plan).unwrap();
    assert!(!packed.iter().any(|it| it.exists()) && !deleting.exists());
    assert_eq!(world.sandboxes.find_published(resource, new.plan), Ok(None));
    // Without a note that we were deleting, the lock belongs to another git.
    publish(&*sandbox, &captured.tree, "second").unwrap();
    write(&packed[0], b"");
    world.sandboxes.withdraw(resource, new.plan).unwrap_err();
    assert!(packed[0].exists());
}

/// Returns the note of a process that deletes refs of the only repository.
fn deletion_note_path(world: &SandboxTestWorld) -> PathBuf {
    let turns = fs::read_dir(world.path("data/repositories")).unwrap();
    let turns: Vec<PathBuf> = turns.map(|it| it.unwrap().path()).collect();
    let [turn] = turns.as_slice() else {
        panic!("{turns:?}");
    };
    turn.with_extension("deleting")
}

#[test]
fn a_published_tree_outlives_sandbox_and_collection() {
    let world = SandboxTestWorld::new();
    for (name, base, unborn) in [
        ("head", BaseSource::Head, false),
        ("worktree", BaseSource::Worktree, false),
        ("unborn", BaseSource::Worktree, true),
    ] {
        let repository = if unborn {
            world.init(name, &[])
        } else {
            world.repository(name, &[("a", "1\n"), ("dir/b", "1\n")])
        };
        write(&repository.join("uncommitted"), b"1\n");
        let state = world.state_of(&repository);
        let new = world.new_sandbox(&repository, ResourceType::GitCheckout, base);
        let created = world.sandboxes.create(&new).unwrap();
        let mut sandbox = world.sandboxes.open(new.id).unwrap();
        append(
            &created.tree.join(if unborn { "uncommitted" } else { "a" }),
            b"2\n",
        );
        let captured = capture(&mut *sandbox);
        let first = publish(&*sandbox, &captured.tree, "first").unwrap();
        assert_eq!(
            first.reference,
            format!("refs/cleveragents/plan-{}", new.plan)
        );
        assert_eq!(
            publish(&*sandbox, &captured.tree, "first"),
            Ok(first.clone())
        );
        write(&created.tree.join("more"), b"more\n");
        let captured = capture(&mut *sandbox);
        let second = publish(&*sandbox, &captured.tree, "second\n\nbody").unwrap();
        assert_ne!(second.commit, first.commit);
        let expected = listing(&created.tree);
        drop(sandbox);
        world.sandboxes.discard(new.id).unwrap();
        world.git(&repository, &["gc", "-q", "--prune=now"]);
        world.git(&repository, &["fsck", "--full", "--strict"]);
        assert_eq!(
            world.git(&repository, &["rev-parse", &second.reference]),
            second.commit
        );
        check_commit(&world, &repository, &second.commit, (&created, &expected));
        let kept = fs::read_dir(repository.join(".git/objects/pack")).unwrap();
        let is_keep = |it: &fs::DirEntry| it.path().extension().is_some_and(|it| it == "keep");
        assert_eq!(kept.flatten().filter(is_keep).count(), 0, "{name}");
        world.sandboxes.withdraw(&new.resource, new.plan).unwrap();
        world.sandboxes.withdraw(&new.resource, new.plan).unwrap();
        assert_eq!(
            world.git(&repository, &["for-each-ref", "refs/cleveragents"]),
            ""
        );
        assert_eq!(world.state_of(&repository), state, "{name}");
    }
}

#[test]
fn content_that_breaks_a_clone_is_not_published() {
    let world = SandboxTestWorld::new();
    let modules = "[submodule \"x\"]\n\tpath = x\n\turl = /x\n\tupdate = !evil\n";
    // A plan that writes such a file is stopped at capture.
    let repository = world.repository("user", &[("a", "1\n"), (".gitmodules", modules)]);
    let (created, mut sandbox) = world.create(&repository);
    append(&created.tree.join("a"), b"2\n");
    let captured = capture(&mut *sandbox);
    let error = publish(&*sandbox, &captured.tree, "m").unwrap_err();
    assert!(error.to_string().contains("gitmodulesUpdate"), "{error}");
    assert_eq!(
        world.git(&repository, &["for-each-ref", "refs/cleveragents/plan-*"]),
        ""
    );
    world.git(&repository, &["fsck", "--connectivity-only"]);
}

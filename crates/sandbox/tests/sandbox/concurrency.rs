//! Many sandboxes of one repository at once, while its user continues to work.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use cleveragents_domain::{BaseSource, ResourceType};
use cleveragents_ports::sandbox::{CommitMetadata, DiscardOutcome, Sandboxes};
use cleveragents_ports::stop::StopSignal;

use crate::environment::{SandboxTestWorld, append, capture};

const SANDBOXES: usize = 32;

#[test]
fn many_concurrent_sandboxes_lose_and_leak_nothing() {
    let world = SandboxTestWorld::new();
    let content = "line\n".repeat(50);
    let names: Vec<String> = (0..60)
        .map(|number| format!("dir{}/file{number}", number % 7))
        .collect();
    let files: Vec<(&str, &str)> = names
        .iter()
        .map(|name| (name.as_str(), content.as_str()))
        .collect();
    let origin = world.repository("origin", &[("o", "1\n")]);
    let repository = world.repository("user", &files);
    world.git(
        &repository,
        &["remote", "add", "origin", origin.to_str().unwrap()],
    );
    let config = fs::read(repository.join(".git/config")).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (world, repository, origin, done) = (&world, &repository, &origin, &done);
        let user = scope.spawn(move || {
            let mut round = 0;
            while !done.load(Ordering::Relaxed) || round < 3 {
                round += 1;
                world.commit(origin, &[("o", &format!("{round}\n"))]);
                world.git(repository, &["fetch", "-q", "origin"]);
                world.commit(repository, &[("dir0/file0", &format!("{round}\n"))]);
                // What the user discards is collected at once.
                world.git(repository, &["reset", "-q", "--hard", "HEAD~1"]);
                world.git(repository, &["reflog", "expire", "--expire=now", "--all"]);
                world.git(repository, &["gc", "-q", "--prune=now"]);
            }
        });
        let crowd: Vec<_> = (0..SANDBOXES)
            .map(|number| scope.spawn(move || run_one_sandbox(world, repository, number)))
            .collect();
        let outcomes: Vec<_> = crowd
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect();
        done.store(true, Ordering::Relaxed);
        user.join().unwrap();
        assert!(outcomes.iter().all(Result::is_ok));
    });
    assert_eq!(world.sandboxes.list(), Ok(Vec::new()));
    assert_eq!(
        world.git(&repository, &["for-each-ref", "refs/cleveragents"]),
        ""
    );
    assert_eq!(fs::read(repository.join(".git/config")).unwrap(), config);
    assert_eq!(world.git(&repository, &["status", "--porcelain"]), "");
    assert!(!repository.join(".git/worktrees").exists());
    world.git(&repository, &["fsck", "--full", "--strict"]);
}

fn run_one_sandbox(world: &SandboxTestWorld, repository: &std::path::Path, number: usize) {
    let new = world.new_sandbox(repository, ResourceType::GitCheckout, BaseSource::Head);
    let created = world.sandboxes.create(&new).unwrap();
    let mut sandbox = world.sandboxes.open(new.id).unwrap();
    append(&created.tree.join("dir1/file1"), b"changed\n");
    let captured = capture(&mut *sandbox);
    assert_eq!(captured.changes.len(), 1);
    let patch = sandbox
        .diff(&created.base, &captured.tree, &[], &StopSignal::new())
        .unwrap()
        .patch;
    assert!(!patch.is_empty());
    if number.is_multiple_of(4) {
        let words = CommitMetadata {
            name: "A".into(),
            email: "a@localhost".into(),
            seconds: 0,
            message: "m".into(),
        };
        let published = sandbox
            .publish(&captured.tree, &words, &StopSignal::new())
            .unwrap();
        let tree = world.git(
            repository,
            &["rev-parse", &format!("{}^{{tree}}", published.reference)],
        );
        assert_eq!(tree, captured.tree.files());
        world.sandboxes.withdraw(&new.resource, new.plan).unwrap();
    }
    sandbox.restore(&created.base, &StopSignal::new()).unwrap();
    assert_eq!(world.sandboxes.discard(new.id), Ok(DiscardOutcome::Removed));
}

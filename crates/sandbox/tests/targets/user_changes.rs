//! What the user did after a kill is not overwritten, and nothing of ours is left behind.

use std::fs;
use std::path::{Path, PathBuf};

use cleveragents_ports::targets::{
    ApplyIntent, ApplyRequest, ApplyTargets, CommitOutcome, ConflictReason, Destination,
    PrepareOutcome,
};
use cleveragents_sandbox::ApplyStep;

use crate::apply_helpers::{
    check_health, commit_done, path_reasons, prepare_ready, request_on_head, targets,
    with_destination, with_new_id,
};
use crate::crash_process::{CrashAction, FolderSnapshot, ProcessEnd, kill_at_step};
use crate::environment::{SandboxTestWorld, append, listing, write};

fn edit(tree: &Path) {
    append(&tree.join("a"), b"2\n");
    write(&tree.join("made"), b"2\n");
}

fn check_undone(world: &SandboxTestWorld, intent: &ApplyIntent, what: &str) {
    match targets(world).commit(intent).unwrap() {
        CommitOutcome::Stopped(stopped) => {
            let reasons = path_reasons(&stopped.conflicts);
            assert_eq!(reasons, [(String::new(), ConflictReason::Undone)], "{what}");
        }
        CommitOutcome::Done(applied) => panic!("{what}: {applied:?}"),
    }
}

/// Applies what the user had undone, because they requested it again.
fn apply_again(world: &SandboxTestWorld, request: &ApplyRequest) {
    match targets(world).prepare(request).unwrap() {
        PrepareOutcome::Ready(intent) => drop(commit_done(&targets(world), &intent)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_reset_after_a_kill_is_respected() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n"), ("b", "1\n")]);
    let request = request_on_head(&world, &repository, edit);
    let old = world.git(&repository, &["rev-parse", "HEAD"]);
    for destination in [Destination::Current, Destination::Worktree] {
        let request = with_destination(with_new_id(&world, &request), destination.clone());
        let intent = prepare_ready(&targets(&world), &request);
        let snapshot = FolderSnapshot::take(&world, &["user", "data"]);
        let action = CrashAction::Commit(Box::new(intent.clone()));
        let steps = match destination {
            Destination::Current => [ApplyStep::PathSettled, ApplyStep::BranchMoved],
            _ => [ApplyStep::PathSwapped, ApplyStep::PathSettled],
        };
        for step in steps {
            let what = format!("{destination:?}, {}", step.as_str());
            snapshot.restore();
            assert_eq!(
                kill_at_step(&world, &action, step, 1),
                ProcessEnd::Killed,
                "{what}"
            );
            let _ = fs::remove_file(repository.join(".git/index.lock"));
            world.git(&repository, &["reset", "-q", "--hard", &old]);
            let reset = listing(&repository);
            check_undone(&world, &intent, &what);
            let mut left = listing(&repository);
            left.retain(|path, _| !path.starts_with(b".agents-"));
            let mut reset = reset;
            reset.retain(|path, _| !path.starts_with(b".agents-"));
            assert_eq!(left, reset, "{what}");
            assert_eq!(
                world.git(&repository, &["rev-parse", "HEAD"]),
                old,
                "{what}"
            );
            apply_again(&world, &request);
            assert_eq!(fs::read(repository.join("a")).unwrap(), b"1\n2\n", "{what}");
        }
        snapshot.restore();
        fs::remove_dir_all(world.path("snapshot")).unwrap();
    }
}

/// A user who removes the lock that a kill left, as git advises, and restores the files wins too.
#[test]
fn a_removed_lock_counts_as_undone() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n"), ("b", "1\n")]);
    let request = request_on_head(&world, &repository, edit);
    let intent = prepare_ready(&targets(&world), &request);
    let action = CrashAction::Commit(Box::new(intent.clone()));
    assert_eq!(
        kill_at_step(&world, &action, ApplyStep::PathSettled, 1),
        ProcessEnd::Killed
    );
    fs::remove_file(repository.join(".git/index.lock")).unwrap();
    world.git(&repository, &["checkout", "-q", "--", "."]);
    check_undone(&world, &intent, "unlocked");
    apply_again(&world, &request);
    assert_eq!(check_health(&world, &repository), "");
}

/// Returns the packs in the user's store.
fn packs(repository: &Path) -> Vec<PathBuf> {
    let folder = repository.join(".git/objects/pack");
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn objects_of_a_killed_preparation_are_collected() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n"), ("b", "1\n")]);
    let request = request_on_head(&world, &repository, edit);
    let before = packs(&repository);
    let snapshot = FolderSnapshot::take(&world, &["user", "data"]);
    let action = CrashAction::Prepare(Box::new(request.clone()));
    for step in [
        ApplyStep::PackRecorded,
        ApplyStep::PackInstalled,
        ApplyStep::Pinned,
        ApplyStep::IntentWritten,
    ] {
        let what = step.as_str();
        snapshot.restore();
        assert_eq!(
            kill_at_step(&world, &action, step, 1),
            ProcessEnd::Killed,
            "{what}"
        );
        // What a kill during installation, or a full disk, leaves beside the packs.
        let beside = format!(".git/objects/pack/.agents-{}-rev", request.id);
        write(&repository.join(beside), b"half");
        targets(&world)
            .discard_orphaned(request.id, &request.resource)
            .unwrap();
        assert_eq!(packs(&repository), before, "{what}");
        assert_eq!(check_health(&world, &repository), "", "{what}");
    }
    // A pack in which git has found an object of the user stays.
    snapshot.restore();
    assert_eq!(
        kill_at_step(&world, &action, ApplyStep::IntentWritten, 1),
        ProcessEnd::Killed
    );
    write(&repository.join("made"), b"2\n");
    world.git(&repository, &["add", "made"]);
    targets(&world)
        .discard_orphaned(request.id, &request.resource)
        .unwrap();
    world.git(&repository, &["commit", "-q", "-m", "mine"]);
    assert_eq!(check_health(&world, &repository), "");
    assert_eq!(world.git(&repository, &["show", "HEAD:made"]), "2");
}

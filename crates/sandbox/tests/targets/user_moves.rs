//! What the user did after a kill is not applied over, and nothing of ours stays behind.

use std::fs;
use std::path::{Path, PathBuf};

use cleveragents_engine::ports::targets::{
    ApplyIntent, ApplyRequest, Carried, ConflictReason, Destination, Prepared, Targets,
};
use cleveragents_sandbox::ApplyStep;

use crate::dying::{Deed, End, Snapshot, die};
use crate::environment::{World, append, listing, write};
use crate::home::{check_health, done, on_head, ready, renamed, targets, to, told};

fn edit(tree: &Path) {
    append(&tree.join("a"), b"2\n");
    write(&tree.join("made"), b"2\n");
}

fn undone(world: &World, intent: &ApplyIntent, what: &str) {
    match targets(world).carry_out(intent).unwrap() {
        Carried::Stopped(stopped) => {
            let reasons = told(&stopped.conflicts);
            assert_eq!(reasons, [(String::new(), ConflictReason::Undone)], "{what}");
        }
        Carried::Done(applied) => panic!("{what}: {applied:?}"),
    }
}

/// Applies what the user had undone, because they asked for it again.
fn again(world: &World, request: &ApplyRequest) {
    match targets(world).prepare(request).unwrap() {
        Prepared::Ready(intent) => drop(done(&targets(world), &intent)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_reset_after_a_kill_is_not_applied_over() {
    let world = World::new();
    let repository = world.repository("user", &[("a", "1\n"), ("b", "1\n")]);
    let request = on_head(&world, &repository, edit);
    let old = world.git(&repository, &["rev-parse", "HEAD"]);
    for destination in [Destination::Current, Destination::Worktree] {
        let request = to(renamed(&world, &request), destination.clone());
        let intent = ready(&targets(&world), &request);
        let snapshot = Snapshot::of(&world, &["user", "data"]);
        let deed = Deed::CarryOut(Box::new(intent.clone()));
        let steps = match destination {
            Destination::Current => [ApplyStep::PathSettled, ApplyStep::BranchMoved],
            _ => [ApplyStep::PathSwapped, ApplyStep::PathSettled],
        };
        for step in steps {
            let what = format!("{destination:?}, {}", step.as_str());
            snapshot.put_back();
            assert_eq!(die(&world, &deed, step, 1), End::Killed, "{what}");
            let _ = fs::remove_file(repository.join(".git/index.lock"));
            world.git(&repository, &["reset", "-q", "--hard", &old]);
            let reset = listing(&repository);
            undone(&world, &intent, &what);
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
            again(&world, &request);
            assert_eq!(fs::read(repository.join("a")).unwrap(), b"1\n2\n", "{what}");
        }
        snapshot.put_back();
        fs::remove_dir_all(world.path("snapshot")).unwrap();
    }
}

/// Who removes the lock that a kill left, as git advises, and puts the files back, wins too.
#[test]
fn a_removed_lock_is_a_word_of_the_users() {
    let world = World::new();
    let repository = world.repository("user", &[("a", "1\n"), ("b", "1\n")]);
    let request = on_head(&world, &repository, edit);
    let intent = ready(&targets(&world), &request);
    let deed = Deed::CarryOut(Box::new(intent.clone()));
    assert_eq!(die(&world, &deed, ApplyStep::PathSettled, 1), End::Killed);
    fs::remove_file(repository.join(".git/index.lock")).unwrap();
    world.git(&repository, &["checkout", "-q", "--", "."]);
    undone(&world, &intent, "unlocked");
    again(&world, &request);
    assert_eq!(check_health(&world, &repository), "");
}

/// The packs in the user's store.
fn packs(repository: &Path) -> Vec<PathBuf> {
    let folder = repository.join(".git/objects/pack");
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn what_a_killed_preparation_gave_is_collected() {
    let world = World::new();
    let repository = world.repository("user", &[("a", "1\n"), ("b", "1\n")]);
    let request = on_head(&world, &repository, edit);
    let before = packs(&repository);
    let snapshot = Snapshot::of(&world, &["user", "data"]);
    let deed = Deed::Prepare(Box::new(request.clone()));
    for step in [
        ApplyStep::PackNoted,
        ApplyStep::PackGiven,
        ApplyStep::Pinned,
        ApplyStep::IntentKept,
    ] {
        let what = step.as_str();
        snapshot.put_back();
        assert_eq!(die(&world, &deed, step, 1), End::Killed, "{what}");
        // What a kill in the middle of giving, or a full disk, leaves beside the packs.
        let beside = format!(".git/objects/pack/.agents-{}-rev", request.id);
        write(&repository.join(beside), b"half");
        targets(&world)
            .give_up(request.id, &request.resource)
            .unwrap();
        assert_eq!(packs(&repository), before, "{what}");
        assert_eq!(check_health(&world, &repository), "", "{what}");
    }
    // A pack that git has found an object of the user's in stays.
    snapshot.put_back();
    assert_eq!(die(&world, &deed, ApplyStep::IntentKept, 1), End::Killed);
    write(&repository.join("made"), b"2\n");
    world.git(&repository, &["add", "made"]);
    targets(&world)
        .give_up(request.id, &request.resource)
        .unwrap();
    world.git(&repository, &["commit", "-q", "-m", "mine"]);
    assert_eq!(check_health(&world, &repository), "");
    assert_eq!(world.git(&repository, &["show", "HEAD:made"]), "2");
}

//! Aborts: an apply that was killed at any step is taken back, whoever is killed doing so.

use std::fs;
use std::path::{Path, PathBuf};

use cleveragents_engine::ports::targets::{
    Aborted, ApplyIntent, ApplyRequest, ConflictReason, Destination, IfGone, Targets,
};
use cleveragents_sandbox::ApplyStep;

use crate::crashes::{CARRYING_OUT, FILES, edit};
use crate::dying::{Deed, End, Snapshot, at_every_step, die};
use crate::environment::{World, append, listing, write};
use crate::home::{
    absolute, check_health, left_over, on_folder, on_head, ready, targets, to, told,
};

/// Steps of which the first one of carrying out, some in its middle and the last ones are.
const SOME: [ApplyStep; 5] = [
    ApplyStep::Begun,
    ApplyStep::PathWritten,
    ApplyStep::PathSwapped,
    ApplyStep::PathSettled,
    ApplyStep::IndexReplaced,
];

/// Kills an apply at every step and aborts it; `is_done` says whether it was done by then.
fn is_taken_back(
    world: &World,
    (place, intent): (&Path, &ApplyIntent),
    is_done: impl Fn(ApplyStep) -> bool,
) {
    let before = listing(place);
    let snapshot = Snapshot::of(world, &["user", "data"]);
    let carry_out = Deed::CarryOut(Box::new(intent.clone()));
    let mut killed = 0;
    at_every_step(CARRYING_OUT, |step, times| {
        let at = format!("{} {times}", step.as_str());
        snapshot.put_back();
        let end = die(world, &carry_out, step, times);
        killed += usize::from(end == End::Killed);
        let aborted = targets(world).abort(intent, IfGone::Stop).unwrap();
        if end == End::Survived || is_done(step) {
            assert!(matches!(aborted, Aborted::Done(_)), "{at}: {aborted:?}");
            return end;
        }
        assert_eq!(aborted, Aborted::TakenBack, "{at}");
        assert_eq!(listing(place), before, "{at}");
        assert_eq!(left_over(place), Vec::<PathBuf>::new(), "{at}");
        assert_eq!(targets(world).list().unwrap(), [], "{at}");
        assert_eq!(
            targets(world).abort(intent, IfGone::Stop).unwrap(),
            Aborted::TakenBack
        );
        end
    });
    assert!(killed >= 4, "only {killed} were killed");
    // Who aborts may be killed as well.
    let abort = Deed::Abort(Box::new(intent.clone()));
    for step in SOME {
        at_every_step(CARRYING_OUT, |second, times| {
            let at = format!("{}, then {} {times}", step.as_str(), second.as_str());
            snapshot.put_back();
            if die(world, &carry_out, step, 1) == End::Survived {
                return End::Survived;
            }
            let end = die(world, &abort, second, times);
            assert_eq!(
                targets(world).abort(intent, IfGone::Stop).unwrap(),
                Aborted::TakenBack,
                "{at}"
            );
            assert_eq!(listing(place), before, "{at}");
            assert_eq!(left_over(place), Vec::<PathBuf>::new(), "{at}");
            end
        });
    }
}

fn request(world: &World, destination: Destination) -> (PathBuf, ApplyRequest) {
    let repository = world.repository("user", &FILES);
    let request = to(on_head(world, &repository, edit), destination);
    (repository, request)
}

#[test]
fn a_commit_is_taken_back_until_its_branch_has_moved() {
    let world = World::new();
    let (repository, request) = request(&world, Destination::Current);
    let intent = ready(&targets(&world), &request);
    let head = world.git(&repository, &["rev-parse", "HEAD"]);
    is_taken_back(&world, (&repository, &intent), |step| {
        assert_eq!(
            world.git(&repository, &["fsck", "--strict", "--no-dangling"]),
            ""
        );
        step >= ApplyStep::BranchMoved
    });
    assert_eq!(world.git(&repository, &["rev-parse", "HEAD"]), head);
    assert_eq!(check_health(&world, &repository), "");
}

#[test]
fn the_files_of_a_working_tree_are_taken_back() {
    let world = World::new();
    let (repository, request) = request(&world, Destination::Worktree);
    let intent = ready(&targets(&world), &request);
    let is_done = |step| step == ApplyStep::DoneNoted;
    is_taken_back(&world, (&repository, &intent), is_done);
}

#[test]
fn the_files_of_a_folder_are_taken_back() {
    let world = World::new();
    let folder = world.path("user");
    for (path, content) in FILES {
        write(&folder.join(path), content.as_bytes());
    }
    let request = on_folder(&world, &folder, edit);
    let intent = ready(&targets(&world), &request);
    is_taken_back(&world, (&folder, &intent), |step| {
        step == ApplyStep::DoneNoted
    });
}

#[test]
fn a_patch_is_taken_back_and_another_file_in_its_place_is_not() {
    let world = World::new();
    let file = world.path("user/it.patch");
    let (repository, request) = request(&world, Destination::Patch(absolute(&file)));
    let intent = ready(&targets(&world), &request);
    let snapshot = Snapshot::of(&world, &["user", "data"]);
    let deed = Deed::CarryOut(Box::new(intent.clone()));
    for step in [
        ApplyStep::Begun,
        ApplyStep::PathWritten,
        ApplyStep::PathSettled,
    ] {
        for theirs in [false, true] {
            snapshot.put_back();
            assert_eq!(die(&world, &deed, step, 1), End::Killed);
            if theirs {
                write(&file, b"theirs\n");
            }
            assert_eq!(
                targets(&world).abort(&intent, IfGone::Stop).unwrap(),
                Aborted::TakenBack
            );
            assert_eq!(file.exists(), theirs, "{}", step.as_str());
            assert_eq!(left_over(&repository), Vec::<PathBuf>::new());
        }
    }
}

#[test]
fn what_somebody_changed_since_is_listed_and_left_alone() {
    let world = World::new();
    let (repository, request) = request(&world, Destination::Current);
    let intent = ready(&targets(&world), &request);
    let before = listing(&repository);
    let deed = Deed::CarryOut(Box::new(intent.clone()));
    assert_eq!(die(&world, &deed, ApplyStep::IndexReplaced, 1), End::Killed);
    let path = repository.join("change");
    let written = fs::read(&path).unwrap();
    append(&path, b"mine\n");
    let mine = fs::read(&path).unwrap();
    for _ in 0..2 {
        let Aborted::Stopped(conflicts) = targets(&world).abort(&intent, IfGone::Stop).unwrap()
        else {
            panic!("an edit was taken for nothing");
        };
        let expected = [("change".to_owned(), ConflictReason::Changed)];
        assert_eq!(told(&conflicts), expected);
        assert_eq!(fs::read(&path).unwrap(), mine, "it is left alone");
    }
    // Everything else is as before already; without the edit all of it is.
    write(&path, &written);
    assert_eq!(
        targets(&world).abort(&intent, IfGone::Stop).unwrap(),
        Aborted::TakenBack
    );
    assert_eq!(listing(&repository), before);
    assert_eq!(check_health(&world, &repository), "");
}

/// What was written to a target that is gone went with it.
fn is_given_up(world: &World, place: &Path, request: &ApplyRequest) {
    let intent = ready(&targets(world), request);
    let carry_out = Deed::CarryOut(Box::new(intent.clone()));
    let end = die(world, &carry_out, ApplyStep::PathSwapped, 1);
    assert_eq!(end, End::Killed);
    fs::rename(place, world.path("gone")).unwrap();
    let stopped = targets(world).abort(&intent, IfGone::Stop).unwrap();
    assert!(matches!(stopped, Aborted::Stopped(_)), "{stopped:?}");
    let given_up = targets(world).abort(&intent, IfGone::GiveUp).unwrap();
    assert_eq!(given_up, Aborted::TakenBack);
    assert_eq!(targets(world).list().unwrap(), []);
}

#[test]
fn an_apply_to_a_repository_that_is_gone_is_given_up() {
    for destination in [Destination::Current, Destination::Worktree] {
        let world = World::new();
        let (repository, request) = request(&world, destination);
        is_given_up(&world, &repository, &request);
    }
}

#[test]
fn an_apply_to_a_folder_that_is_gone_is_given_up() {
    let world = World::new();
    let folder = world.path("folder");
    write(&folder.join("a"), b"1\n");
    let request = on_folder(&world, &folder, |tree| append(&tree.join("a"), b"2\n"));
    is_given_up(&world, &folder, &request);
}

//! Aborts: an apply killed at any step is rolled back, even if the abort itself is killed.

use std::fs;
use std::path::{Path, PathBuf};

use cleveragents_ports::targets::{
    ApplyIntent, ApplyRequest, ApplyTargets, ConflictReason, Destination, MissingTargetPolicy,
    TargetAbortOutcome,
};
use cleveragents_sandbox::ApplyStep;

use crate::apply_helpers::{
    absolute, check_health, find_leftovers, path_reasons, prepare_ready, request_on_folder,
    request_on_head, targets, with_destination,
};
use crate::crash_process::{CrashAction, FolderSnapshot, ProcessEnd, at_every_step, kill_at_step};
use crate::crashes::{COMMIT_STEPS, FILES, edit};
use crate::environment::{SandboxTestWorld, append, listing, write};

/// The first step of a commit, some in the middle, and the last ones.
const SAMPLE_STEPS: [ApplyStep; 5] = [
    ApplyStep::Started,
    ApplyStep::PathWritten,
    ApplyStep::PathSwapped,
    ApplyStep::PathSettled,
    ApplyStep::IndexReplaced,
];

/// Kills an apply at every step and aborts it; `is_done` says whether it was done by then.
fn check_abort_at_every_step(
    world: &SandboxTestWorld,
    (root, intent): (&Path, &ApplyIntent),
    is_done: impl Fn(ApplyStep) -> bool,
) {
    let before = listing(root);
    let snapshot = FolderSnapshot::take(world, &["user", "data"]);
    let commit = CrashAction::Commit(Box::new(intent.clone()));
    let mut killed = 0;
    at_every_step(COMMIT_STEPS, |step, times| {
        let at = format!("{} {times}", step.as_str());
        snapshot.restore();
        let end = kill_at_step(world, &commit, step, times);
        killed += usize::from(end == ProcessEnd::Killed);
        let aborted = targets(world)
            .abort(intent, MissingTargetPolicy::Stop)
            .unwrap();
        if end == ProcessEnd::Survived || is_done(step) {
            assert!(
                matches!(aborted, TargetAbortOutcome::Done(_)),
                "{at}: {aborted:?}"
            );
            return end;
        }
        assert_eq!(aborted, TargetAbortOutcome::RolledBack, "{at}");
        assert_eq!(listing(root), before, "{at}");
        assert_eq!(find_leftovers(root), Vec::<PathBuf>::new(), "{at}");
        assert_eq!(targets(world).list().unwrap(), [], "{at}");
        assert_eq!(
            targets(world)
                .abort(intent, MissingTargetPolicy::Stop)
                .unwrap(),
            TargetAbortOutcome::RolledBack
        );
        end
    });
    assert!(killed >= 4, "only {killed} were killed");
    // The abort may be killed as well.
    let abort = CrashAction::Abort(Box::new(intent.clone()));
    for step in SAMPLE_STEPS {
        at_every_step(COMMIT_STEPS, |second, times| {
            let at = format!("{}, then {} {times}", step.as_str(), second.as_str());
            snapshot.restore();
            if kill_at_step(world, &commit, step, 1) == ProcessEnd::Survived {
                return ProcessEnd::Survived;
            }
            let end = kill_at_step(world, &abort, second, times);
            assert_eq!(
                targets(world)
                    .abort(intent, MissingTargetPolicy::Stop)
                    .unwrap(),
                TargetAbortOutcome::RolledBack,
                "{at}"
            );
            assert_eq!(listing(root), before, "{at}");
            assert_eq!(find_leftovers(root), Vec::<PathBuf>::new(), "{at}");
            end
        });
    }
}

fn request(world: &SandboxTestWorld, destination: Destination) -> (PathBuf, ApplyRequest) {
    let repository = world.repository("user", &FILES);
    let request = with_destination(request_on_head(world, &repository, edit), destination);
    (repository, request)
}

#[test]
fn a_commit_can_be_aborted_until_its_branch_moved() {
    let world = SandboxTestWorld::new();
    let (repository, request) = request(&world, Destination::Current);
    let intent = prepare_ready(&targets(&world), &request);
    let head = world.git(&repository, &["rev-parse", "HEAD"]);
    check_abort_at_every_step(&world, (&repository, &intent), |step| {
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
fn files_of_a_working_tree_are_restored_on_abort() {
    let world = SandboxTestWorld::new();
    let (repository, request) = request(&world, Destination::Worktree);
    let intent = prepare_ready(&targets(&world), &request);
    let is_done = |step| step == ApplyStep::DoneRecorded;
    check_abort_at_every_step(&world, (&repository, &intent), is_done);
}

#[test]
fn files_of_a_folder_are_restored_on_abort() {
    let world = SandboxTestWorld::new();
    let folder = world.path("user");
    for (path, content) in FILES {
        write(&folder.join(path), content.as_bytes());
    }
    let request = request_on_folder(&world, &folder, edit);
    let intent = prepare_ready(&targets(&world), &request);
    check_abort_at_every_step(&world, (&folder, &intent), |step| {
        step == ApplyStep::DoneRecorded
    });
}

#[test]
fn abort_removes_the_patch_but_not_another_file() {
    let world = SandboxTestWorld::new();
    let file = world.path("user/it.patch");
    let (repository, request) = request(&world, Destination::Patch(absolute(&file)));
    let intent = prepare_ready(&targets(&world), &request);
    let snapshot = FolderSnapshot::take(&world, &["user", "data"]);
    let action = CrashAction::Commit(Box::new(intent.clone()));
    for step in [
        ApplyStep::Started,
        ApplyStep::PathWritten,
        ApplyStep::PathSettled,
    ] {
        for theirs in [false, true] {
            snapshot.restore();
            assert_eq!(kill_at_step(&world, &action, step, 1), ProcessEnd::Killed);
            if theirs {
                write(&file, b"theirs\n");
            }
            assert_eq!(
                targets(&world)
                    .abort(&intent, MissingTargetPolicy::Stop)
                    .unwrap(),
                TargetAbortOutcome::RolledBack
            );
            assert_eq!(file.exists(), theirs, "{}", step.as_str());
            assert_eq!(find_leftovers(&repository), Vec::<PathBuf>::new());
        }
    }
}

#[test]
fn abort_lists_and_keeps_later_changes() {
    let world = SandboxTestWorld::new();
    let (repository, request) = request(&world, Destination::Current);
    let intent = prepare_ready(&targets(&world), &request);
    let before = listing(&repository);
    let action = CrashAction::Commit(Box::new(intent.clone()));
    assert_eq!(
        kill_at_step(&world, &action, ApplyStep::IndexReplaced, 1),
        ProcessEnd::Killed
    );
    let path = repository.join("change");
    let written = fs::read(&path).unwrap();
    append(&path, b"mine\n");
    let mine = fs::read(&path).unwrap();
    for _ in 0..2 {
        let TargetAbortOutcome::Stopped(conflicts) = targets(&world)
            .abort(&intent, MissingTargetPolicy::Stop)
            .unwrap()
        else {
            panic!("an edit was taken for nothing");
        };
        let expected = [("change".to_owned(), ConflictReason::Changed)];
        assert_eq!(path_reasons(&conflicts), expected);
        assert_eq!(fs::read(&path).unwrap(), mine, "it is left alone");
    }
    // Everything else is already restored; without the edit, all of it is.
    write(&path, &written);
    assert_eq!(
        targets(&world)
            .abort(&intent, MissingTargetPolicy::Stop)
            .unwrap(),
        TargetAbortOutcome::RolledBack
    );
    assert_eq!(listing(&repository), before);
    assert_eq!(check_health(&world, &repository), "");
}

/// What was written to a target that no longer exists is gone with it.
fn check_abandoned(world: &SandboxTestWorld, root: &Path, request: &ApplyRequest) {
    let intent = prepare_ready(&targets(world), request);
    let commit = CrashAction::Commit(Box::new(intent.clone()));
    let end = kill_at_step(world, &commit, ApplyStep::PathSwapped, 1);
    assert_eq!(end, ProcessEnd::Killed);
    fs::rename(root, world.path("gone")).unwrap();
    let stopped = targets(world)
        .abort(&intent, MissingTargetPolicy::Stop)
        .unwrap();
    assert!(
        matches!(stopped, TargetAbortOutcome::Stopped(_)),
        "{stopped:?}"
    );
    let given_up = targets(world)
        .abort(&intent, MissingTargetPolicy::Abandon)
        .unwrap();
    assert_eq!(given_up, TargetAbortOutcome::RolledBack);
    assert_eq!(targets(world).list().unwrap(), []);
}

#[test]
fn an_apply_to_a_missing_repository_is_abandoned() {
    for destination in [Destination::Current, Destination::Worktree] {
        let world = SandboxTestWorld::new();
        let (repository, request) = request(&world, destination);
        check_abandoned(&world, &repository, &request);
    }
}

#[test]
fn an_apply_to_a_missing_folder_is_abandoned() {
    let world = SandboxTestWorld::new();
    let folder = world.path("folder");
    write(&folder.join("a"), b"1\n");
    let request = request_on_folder(&world, &folder, |tree| append(&tree.join("a"), b"2\n"));
    check_abandoned(&world, &folder, &request);
}

/// What the plan adds, in folders that are not there and in one that is.
fn add_folders(tree: &Path) {
    for path in ["deep/er/new", "deep/other", "mine/new"] {
        write(&tree.join(path), b"new\n");
    }
}

#[test]
fn an_abort_removes_only_folders_that_the_apply_made() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &FILES);
    let folder = world.path("folder");
    for (path, content) in FILES {
        write(&folder.join(path), content.as_bytes());
    }
    let requests = [
        (
            &repository,
            request_on_head(&world, &repository, add_folders),
        ),
        (&folder, request_on_folder(&world, &folder, add_folders)),
    ];
    for (root, request) in requests {
        // The user makes a folder that the plan is to write into.
        fs::create_dir(root.join("mine")).unwrap();
        let intent = prepare_ready(&targets(&world), &request);
        let before = listing(root);
        let snapshot = FolderSnapshot::take(&world, &["user", "folder", "data"]);
        let commit = CrashAction::Commit(Box::new(intent.clone()));
        for step in [
            ApplyStep::PathDrafted,
            ApplyStep::PathWritten,
            ApplyStep::PathSwapped,
            ApplyStep::PathSettled,
        ] {
            for times in 1..=3 {
                let at = format!("{} {times}", step.as_str());
                snapshot.restore();
                let end = kill_at_step(&world, &commit, step, times);
                assert_eq!(end, ProcessEnd::Killed, "{at}");
                assert!(root.join("deep").is_dir(), "{at}");
                let aborted = targets(&world).abort(&intent, MissingTargetPolicy::Stop);
                assert_eq!(aborted, Ok(TargetAbortOutcome::RolledBack), "{at}");
                assert_eq!(listing(root), before, "{at}");
            }
        }
        fs::remove_dir_all(world.path("snapshot")).unwrap();
    }
}

//! Concurrent work: other applies, and the user.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use cleveragents_ports::targets::{
    ApplyIntent, ApplyTargets, CommitOutcome, ConflictReason, StoppedCommit,
};
use cleveragents_sandbox::{ApplyStep, LocalTargets, Watcher};

use crate::apply_helpers::{
    check_health, commit_done, find_leftovers, path_reasons, prepare_ready, request_on_folder,
    request_on_head, targets, targets_with_watcher,
};
use crate::crash_process::{CrashAction, FolderSnapshot, ProcessEnd, at_every_step, kill_at_step};
use crate::environment::{SandboxTestWorld, append, listing, write};

/// Runs an action once, right after a step.
struct ActAtStep<F> {
    step: ApplyStep,
    remaining: AtomicUsize,
    action: Mutex<F>,
}

impl<F> std::fmt::Debug for ActAtStep<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Then")
    }
}

impl<F: FnMut() + Send> Watcher for ActAtStep<F> {
    fn reached(&self, step: ApplyStep) {
        if step == self.step && self.remaining.fetch_sub(1, Ordering::Relaxed) == 1 {
            let mut action = self.action.lock().unwrap();
            (*action)();
        }
    }
}

fn targets_acting_at(
    world: &SandboxTestWorld,
    step: ApplyStep,
    action: impl FnMut() + Send + 'static,
) -> LocalTargets {
    let watcher = ActAtStep {
        step,
        remaining: AtomicUsize::new(1),
        action: Mutex::new(action),
    };
    targets_with_watcher(&world.path("data"), &world.path("home"), Arc::new(watcher))
}

fn commit_stopped(targets: &LocalTargets, intent: &ApplyIntent) -> StoppedCommit {
    match targets.commit(intent).unwrap() {
        CommitOutcome::Stopped(stopped) => stopped,
        CommitOutcome::Done(applied) => panic!("{applied:?}"),
    }
}

/// Between the last check of a path and its replacement there is no moment in which an edit could be
/// lost.
#[test]
fn a_last_moment_edit_is_restored() {
    for is_folder in [false, true] {
        let world = SandboxTestWorld::new();
        let resource = if is_folder {
            write(&world.path("user/a"), b"1\n");
            write(&world.path("user/b"), b"1\n");
            world.path("user")
        } else {
            world.repository("user", &[("a", "1\n"), ("b", "1\n")])
        };
        let edit = |tree: &Path| append(&tree.join("a"), b"2\n");
        let request = if is_folder {
            request_on_folder(&world, &resource, edit)
        } else {
            request_on_head(&world, &resource, edit)
        };
        let intent = prepare_ready(&targets(&world), &request);
        let path = resource.join("a");
        let edited = path.clone();
        let targets = targets_acting_at(&world, ApplyStep::PathWritten, move || {
            append(&edited, b"mine\n");
        });
        let message = path_reasons(&commit_stopped(&targets, &intent).conflicts);
        assert_eq!(message, [("a".into(), ConflictReason::Changed)]);
        assert_eq!(fs::read(&path).unwrap(), b"1\nmine\n");
        assert_eq!(find_leftovers(&resource), Vec::<PathBuf>::new());
        write(&path, b"1\n");
        commit_done(&targets, &intent);
        assert_eq!(fs::read(&path).unwrap(), b"1\n2\n");
    }
}

/// Many files are written beside their paths first and then moved into place. If that ends early, no
/// temporary file is left.
#[test]
fn a_concurrent_edit_leaves_no_temporary_files() {
    let world = SandboxTestWorld::new();
    let names: Vec<String> = (0..40).map(|it| format!("d{}/f{it:02}", it % 3)).collect();
    let files = names.iter().map(|name| (name.as_str(), "1\n"));
    let repository = world.repository("user", &files.collect::<Vec<_>>());
    let request = request_on_head(&world, &repository, |tree| {
        for name in &names {
            append(&tree.join(name), b"2\n");
            write(&tree.join(format!("new/{name}")), b"2\n");
        }
    });
    let intent = prepare_ready(&targets(&world), &request);
    let edited = repository.join("d1/f01");
    let path = edited.clone();
    let hurt = targets_acting_at(&world, ApplyStep::PathDrafted, move || {
        append(&path, b"mine\n");
    });
    let stopped = commit_stopped(&hurt, &intent);
    assert_eq!(
        path_reasons(&stopped.conflicts),
        [("d1/f01".into(), ConflictReason::Changed)]
    );
    assert!(stopped.written.len() < 40);
    assert_eq!(find_leftovers(&repository), Vec::<PathBuf>::new());
    assert!(!repository.join("new").exists());
    write(&edited, b"1\n");
    commit_done(&targets(&world), &intent);
    assert_eq!(check_health(&world, &repository), "");
    assert_eq!(world.git(&repository, &["diff", "--stat", "HEAD"]), "");
}

/// As before, but killed before the edit is restored: the next call restores it.
#[test]
fn an_edit_swapped_out_before_a_kill_is_restored() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n"), ("b", "1\n")]);
    let request = request_on_head(&world, &repository, |tree| {
        append(&tree.join("a"), b"2\n");
        fs::remove_file(tree.join("b")).unwrap();
    });
    let intent = prepare_ready(&targets(&world), &request);
    let snapshot = FolderSnapshot::take(&world, &["user", "data"]);
    let action = CrashAction::Commit(Box::new(intent.clone()));
    for (times, number, name) in [(1, 1, "b"), (2, 0, "a")] {
        snapshot.restore();
        assert_eq!(
            kill_at_step(&world, &action, ApplyStep::PathSwapped, times),
            ProcessEnd::Killed
        );
        // Changes the swapped-out content beside the path, as if the edit had been made just before.
        let aside = repository.join(format!(".agents-{}-{number}", intent.id));
        append(&aside, b"mine\n");
        let stopped = commit_stopped(&targets(&world), &intent);
        assert_eq!(
            path_reasons(&stopped.conflicts),
            [(name.into(), ConflictReason::Changed)]
        );
        assert_eq!(fs::read(repository.join(name)).unwrap(), b"1\nmine\n");
        assert_eq!(find_leftovers(&repository), Vec::<PathBuf>::new());
        // The path changed again as well: both contents are kept.
        snapshot.restore();
        assert_eq!(
            kill_at_step(&world, &action, ApplyStep::PathSwapped, times),
            ProcessEnd::Killed
        );
        append(&aside, b"mine\n");
        write(&repository.join(name), b"mine too\n");
        let stopped = self::commit_stopped(&targets(&world), &intent);
        let kept = aside.file_name().unwrap().to_str().unwrap().to_owned();
        assert_eq!(
            path_reasons(&stopped.conflicts),
            [(name.into(), ConflictReason::KeptAside { kept })]
        );
        assert_eq!(fs::read(&aside).unwrap(), b"1\nmine\n");
        assert_eq!(fs::read(repository.join(name)).unwrap(), b"mine too\n");
    }
}

/// The branch moves at the last moment: our own writes are restored, the other commit stays.
#[test]
fn a_branch_moved_at_the_last_moment_is_kept() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n"), ("b", "1\n"), ("go", "1\n")]);
    let request = request_on_head(&world, &repository, |tree| {
        append(&tree.join("a"), b"2\n");
        fs::remove_file(tree.join("go")).unwrap();
        write(&tree.join("new"), b"2\n");
    });
    append(&repository.join("b"), b"mine\n");
    let before = listing(&repository);
    let intent = prepare_ready(&targets(&world), &request);
    let (tree, parent) = (
        world.git(&repository, &["rev-parse", "HEAD^{tree}"]),
        world.git(&repository, &["rev-parse", "HEAD"]),
    );
    let other = world.git(
        &repository,
        &["commit-tree", &tree, "-p", &parent, "-m", "other"],
    );
    for step in [
        ApplyStep::Started,
        ApplyStep::PathSettled,
        ApplyStep::IndexReplaced,
    ] {
        let (user, commit) = (repository.join(".git/refs/heads/main"), other.clone());
        let moving = targets_acting_at(&world, step, move || {
            write(&user, format!("{commit}\n").as_bytes());
        });
        let stopped = commit_stopped(&moving, &intent);
        let moved = ConflictReason::Moved {
            reference: "main".into(),
            expected: parent.clone(),
            found: other.clone(),
        };
        assert_eq!(path_reasons(&stopped.conflicts), [(String::new(), moved)]);
        assert_eq!(stopped.written, []);
        assert_eq!(world.git(&repository, &["rev-parse", "HEAD"]), other);
        assert_eq!(listing(&repository), before);
        assert_eq!(check_health(&world, &repository), " M b");
        world.git(&repository, &["update-ref", "refs/heads/main", &parent]);
    }
    // Nothing of it is left, so it may be discarded, or committed after all.
    targets(&world).discard_prepared(&intent).unwrap();
    let intent = prepare_ready(&targets(&world), &request);
    commit_done(&targets(&world), &intent);
    assert_eq!(check_health(&world, &repository), " M b");
}

/// Killed half-way; then the user removes the lock as git advises and commits what is there.
#[test]
fn a_user_commit_after_a_kill_is_kept() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n"), ("b", "1\n"), ("go", "1\n")]);
    let request = request_on_head(&world, &repository, |tree| {
        append(&tree.join("a"), b"2\n");
        fs::remove_file(tree.join("go")).unwrap();
        write(&tree.join("new"), b"2\n");
    });
    let intent = prepare_ready(&targets(&world), &request);
    let snapshot = FolderSnapshot::take(&world, &["user", "data"]);
    let action = CrashAction::Commit(Box::new(intent.clone()));
    at_every_step(
        &[ApplyStep::PathSettled, ApplyStep::IndexReplaced],
        |step, times| {
            snapshot.restore();
            let end = kill_at_step(&world, &action, step, times);
            if end == ProcessEnd::Survived {
                return end;
            }
            fs::remove_file(repository.join(".git/index.lock")).unwrap();
            append(&repository.join("b"), b"mine\n");
            world.git(&repository, &["commit", "-q", "-a", "-m", "mine"]);
            let head = world.git(&repository, &["rev-parse", "HEAD"]);
            // What the user committed is theirs; the rest is what the killed call left.
            let committed = world.git(&repository, &["ls-tree", "-r", "--name-only", "HEAD"]);
            let mut files = listing(&repository);
            files.retain(|path, _| committed.lines().any(|line| line.as_bytes() == path));
            let at = format!("{} {times}", step.as_str());
            match targets(&world).commit(&intent).unwrap() {
                // The whole change was already there. The user's commit is not ours to undo.
                CommitOutcome::Done(applied) => {
                    assert_eq!(applied.commit, None, "{at}");
                    assert_eq!(world.git(&repository, &["show", "HEAD:new"]), "2");
                }
                CommitOutcome::Stopped(stopped) => {
                    let reason = &stopped.conflicts[0].reason;
                    assert!(matches!(reason, ConflictReason::Moved { .. }), "{at}");
                }
            }
            assert_eq!(world.git(&repository, &["rev-parse", "HEAD"]), head, "{at}");
            assert_eq!(listing(&repository), files, "{at}");
            assert_eq!(check_health(&world, &repository), "", "{at}");
            end
        },
    );
}

#[test]
fn concurrent_commits_apply_once() {
    for is_folder in [false, true] {
        let world = SandboxTestWorld::new();
        let files = [("a", "1\n"), ("b", "1\n"), ("c", "1\n")];
        let resource = if is_folder {
            for (name, content) in files {
                write(&world.path("user").join(name), content.as_bytes());
            }
            world.path("user")
        } else {
            world.repository("user", &files)
        };
        let edit = |tree: &Path| {
            append(&tree.join("a"), b"2\n");
            fs::remove_file(tree.join("b")).unwrap();
            write(&tree.join("new"), b"2\n");
        };
        let request = if is_folder {
            request_on_folder(&world, &resource, edit)
        } else {
            request_on_head(&world, &resource, edit)
        };
        let intent = prepare_ready(&targets(&world), &request);
        let barrier = Barrier::new(8);
        let answers: Vec<CommitOutcome> = thread::scope(|scope| {
            let crowd: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        let targets = targets(&world);
                        barrier.wait();
                        targets.commit(&intent).unwrap()
                    })
                })
                .collect();
            let crowd = crowd.into_iter();
            crowd.map(|one| one.join().unwrap()).collect()
        });
        assert!(answers.iter().all(|it| *it == answers[0]), "{answers:?}");
        assert!(matches!(answers[0], CommitOutcome::Done(_)));
        assert_eq!(fs::read(resource.join("a")).unwrap(), b"1\n2\n");
        if !is_folder {
            assert_eq!(world.git(&resource, &["rev-list", "--count", "HEAD"]), "2");
            assert_eq!(check_health(&world, &resource), "");
        }
    }
}

/// The same with processes, some of them killed: in the end it is applied once.
#[test]
fn many_processes_apply_to_one_repository() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &[("a", "1\n"), ("b", "1\n"), ("c", "1\n")]);
    let requests: Vec<_> = ["a", "b", "c"]
        .map(|name| request_on_head(&world, &repository, |tree| append(&tree.join(name), b"2\n")))
        .into();
    let targets = targets(&world);
    // Prepared one after the other and committed at once: one wins, the others get a conflict.
    let intents: Vec<_> = requests
        .iter()
        .map(|it| prepare_ready(&targets, it))
        .collect();
    let answers: Vec<CommitOutcome> = thread::scope(|scope| {
        let crowd: Vec<_> = intents
            .iter()
            .map(|intent| scope.spawn(|| targets.commit(intent).unwrap()))
            .collect();
        crowd.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let won = answers
        .iter()
        .filter(|it| matches!(it, CommitOutcome::Done(_)));
    assert_eq!(won.count(), 1, "{answers:?}");
    assert_eq!(check_health(&world, &repository), "");
    assert_eq!(
        world.git(&repository, &["rev-list", "--count", "HEAD"]),
        "2"
    );
    // The losers prepare again.
    for ((request, intent), answer) in requests.iter().zip(&intents).zip(&answers) {
        if matches!(answer, CommitOutcome::Stopped(_)) {
            targets.discard_prepared(intent).unwrap();
            let intent = prepare_ready(&targets, request);
            let action = CrashAction::Commit(Box::new(intent.clone()));
            thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        assert_eq!(
                            kill_at_step(&world, &action, ApplyStep::Pinned, 1),
                            ProcessEnd::Survived
                        );
                    });
                }
            });
            commit_done(&targets, &intent);
        }
    }
    assert_eq!(
        world.git(&repository, &["rev-list", "--count", "HEAD"]),
        "4"
    );
    assert_eq!(check_health(&world, &repository), "");
}

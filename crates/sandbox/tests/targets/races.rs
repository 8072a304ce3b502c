//! Somebody else is at work at the same time: other applies, and the user.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use cleveragents_engine::ports::targets::{ApplyIntent, Carried, ConflictReason, Stopped, Targets};
use cleveragents_sandbox::{ApplyStep, LocalTargets, Watcher};

use crate::dying::{Deed, End, Snapshot, at_every_step, die};
use crate::environment::{World, append, listing, write};
use crate::home::{
    check_health, done, left_over, on_folder, on_head, ready, targets, told, watched,
};

/// Does something once, right after a step.
struct Then<F> {
    step: ApplyStep,
    left: AtomicUsize,
    deed: Mutex<F>,
}

impl<F> std::fmt::Debug for Then<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Then")
    }
}

impl<F: FnMut() + Send> Watcher for Then<F> {
    fn reached(&self, step: ApplyStep) {
        if step == self.step && self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            let mut deed = self.deed.lock().unwrap();
            (*deed)();
        }
    }
}

fn targets_with(
    world: &World,
    step: ApplyStep,
    deed: impl FnMut() + Send + 'static,
) -> LocalTargets {
    let watcher = Then {
        step,
        left: AtomicUsize::new(1),
        deed: Mutex::new(deed),
    };
    watched(&world.path("data"), &world.path("home"), Arc::new(watcher))
}

fn stopped(targets: &LocalTargets, intent: &ApplyIntent) -> Stopped {
    match targets.carry_out(intent).unwrap() {
        Carried::Stopped(stopped) => stopped,
        Carried::Done(applied) => panic!("{applied:?}"),
    }
}

/// After the last look at a path and before it is replaced there is no moment in which an edit
/// could be lost.
#[test]
fn an_edit_in_the_last_moment_is_put_back() {
    for is_folder in [false, true] {
        let world = World::new();
        let resource = match is_folder {
            false => world.repository("user", &[("a", "1\n"), ("b", "1\n")]),
            true => {
                write(&world.path("user/a"), b"1\n");
                write(&world.path("user/b"), b"1\n");
                world.path("user")
            }
        };
        let edit = |tree: &Path| append(&tree.join("a"), b"2\n");
        let request = match is_folder {
            false => on_head(&world, &resource, edit),
            true => on_folder(&world, &resource, edit),
        };
        let intent = ready(&targets(&world), &request);
        let path = resource.join("a");
        let edited = path.clone();
        let targets = targets_with(&world, ApplyStep::PathWritten, move || {
            append(&edited, b"mine\n");
        });
        let told = told(&stopped(&targets, &intent).conflicts);
        assert_eq!(told, [("a".into(), ConflictReason::Changed)]);
        assert_eq!(fs::read(&path).unwrap(), b"1\nmine\n");
        assert_eq!(left_over(&resource), Vec::<PathBuf>::new());
        write(&path, b"1\n");
        done(&targets, &intent);
        assert_eq!(fs::read(&path).unwrap(), b"1\n2\n");
    }
}

/// Many files are written beside their places first and then put there; when that ends early,
/// nothing of it is left lying about.
#[test]
fn many_files_leave_nothing_behind_when_one_is_edited() {
    let world = World::new();
    let names: Vec<String> = (0..40).map(|it| format!("d{}/f{it:02}", it % 3)).collect();
    let files = names.iter().map(|name| (name.as_str(), "1\n"));
    let repository = world.repository("user", &files.collect::<Vec<_>>());
    let request = on_head(&world, &repository, |tree| {
        for name in &names {
            append(&tree.join(name), b"2\n");
            write(&tree.join(format!("new/{name}")), b"2\n");
        }
    });
    let intent = ready(&targets(&world), &request);
    let edited = repository.join("d1/f01");
    let path = edited.clone();
    let hurt = targets_with(&world, ApplyStep::PathDrafted, move || {
        append(&path, b"mine\n");
    });
    let stopped = stopped(&hurt, &intent);
    assert_eq!(
        told(&stopped.conflicts),
        [("d1/f01".into(), ConflictReason::Changed)]
    );
    assert!(stopped.written.len() < 40);
    assert_eq!(left_over(&repository), Vec::<PathBuf>::new());
    assert!(!repository.join("new").exists());
    write(&edited, b"1\n");
    done(&targets(&world), &intent);
    assert_eq!(check_health(&world, &repository), "");
    assert_eq!(world.git(&repository, &["diff", "--stat", "HEAD"]), "");
}

/// As before, and killed before it is put back: the next call does.
#[test]
fn an_edit_that_came_out_of_a_killed_exchange_is_put_back() {
    let world = World::new();
    let repository = world.repository("user", &[("a", "1\n"), ("b", "1\n")]);
    let request = on_head(&world, &repository, |tree| {
        append(&tree.join("a"), b"2\n");
        fs::remove_file(tree.join("b")).unwrap();
    });
    let intent = ready(&targets(&world), &request);
    let snapshot = Snapshot::of(&world, &["user", "data"]);
    let deed = Deed::CarryOut(Box::new(intent.clone()));
    for (times, number, name) in [(1, 1, "b"), (2, 0, "a")] {
        snapshot.put_back();
        assert_eq!(
            die(&world, &deed, ApplyStep::PathSwapped, times),
            End::Killed
        );
        // What came out is beside the path: as if the edit had been made just before.
        let aside = repository.join(format!(".agents-{}-{number}", intent.id));
        append(&aside, b"mine\n");
        let stopped = stopped(&targets(&world), &intent);
        assert_eq!(
            told(&stopped.conflicts),
            [(name.into(), ConflictReason::Changed)]
        );
        assert_eq!(fs::read(repository.join(name)).unwrap(), b"1\nmine\n");
        assert_eq!(left_over(&repository), Vec::<PathBuf>::new());
        // More has happened: both contents are kept.
        snapshot.put_back();
        assert_eq!(
            die(&world, &deed, ApplyStep::PathSwapped, times),
            End::Killed
        );
        append(&aside, b"mine\n");
        write(&repository.join(name), b"mine too\n");
        let stopped = self::stopped(&targets(&world), &intent);
        let kept = aside.file_name().unwrap().to_str().unwrap().to_owned();
        assert_eq!(
            told(&stopped.conflicts),
            [(name.into(), ConflictReason::KeptAside { kept })]
        );
        assert_eq!(fs::read(&aside).unwrap(), b"1\nmine\n");
        assert_eq!(fs::read(repository.join(name)).unwrap(), b"mine too\n");
    }
}

/// The branch moves in the last moment: our own writes are put back, the other's commit stands.
#[test]
fn a_branch_that_moves_in_the_last_moment_wins() {
    let world = World::new();
    let repository = world.repository("user", &[("a", "1\n"), ("b", "1\n"), ("go", "1\n")]);
    let request = on_head(&world, &repository, |tree| {
        append(&tree.join("a"), b"2\n");
        fs::remove_file(tree.join("go")).unwrap();
        write(&tree.join("new"), b"2\n");
    });
    append(&repository.join("b"), b"mine\n");
    let before = listing(&repository);
    let intent = ready(&targets(&world), &request);
    let (tree, parent) = (
        world.git(&repository, &["rev-parse", "HEAD^{tree}"]),
        world.git(&repository, &["rev-parse", "HEAD"]),
    );
    let other = world.git(
        &repository,
        &["commit-tree", &tree, "-p", &parent, "-m", "other"],
    );
    for step in [
        ApplyStep::Begun,
        ApplyStep::PathSettled,
        ApplyStep::IndexReplaced,
    ] {
        let (user, commit) = (repository.join(".git/refs/heads/main"), other.clone());
        let moving = targets_with(&world, step, move || {
            write(&user, format!("{commit}\n").as_bytes());
        });
        let stopped = stopped(&moving, &intent);
        let moved = ConflictReason::Moved {
            reference: "main".into(),
            expected: parent.clone(),
            found: other.clone(),
        };
        assert_eq!(told(&stopped.conflicts), [(String::new(), moved)]);
        assert_eq!(stopped.written, []);
        assert_eq!(world.git(&repository, &["rev-parse", "HEAD"]), other);
        assert_eq!(listing(&repository), before);
        assert_eq!(check_health(&world, &repository), " M b");
        world.git(&repository, &["update-ref", "refs/heads/main", &parent]);
    }
    // Nothing of it stands, so it may be taken back, or carried out after all.
    targets(&world).take_back(&intent).unwrap();
    let intent = ready(&targets(&world), &request);
    done(&targets(&world), &intent);
    assert_eq!(check_health(&world, &repository), " M b");
}

/// Killed half-way, then the user takes the lock away as git advises and commits what is there.
#[test]
fn a_user_who_commits_after_a_kill_keeps_everything() {
    let world = World::new();
    let repository = world.repository("user", &[("a", "1\n"), ("b", "1\n"), ("go", "1\n")]);
    let request = on_head(&world, &repository, |tree| {
        append(&tree.join("a"), b"2\n");
        fs::remove_file(tree.join("go")).unwrap();
        write(&tree.join("new"), b"2\n");
    });
    let intent = ready(&targets(&world), &request);
    let snapshot = Snapshot::of(&world, &["user", "data"]);
    let deed = Deed::CarryOut(Box::new(intent.clone()));
    at_every_step(
        &[ApplyStep::PathSettled, ApplyStep::IndexReplaced],
        |step, times| {
            snapshot.put_back();
            let end = die(&world, &deed, step, times);
            if end == End::Survived {
                return end;
            }
            fs::remove_file(repository.join(".git/index.lock")).unwrap();
            append(&repository.join("b"), b"mine\n");
            world.git(&repository, &["commit", "-q", "-a", "-m", "mine"]);
            let head = world.git(&repository, &["rev-parse", "HEAD"]);
            // What they committed is theirs; the rest is what the killed call left.
            let committed = world.git(&repository, &["ls-tree", "-r", "--name-only", "HEAD"]);
            let mut files = listing(&repository);
            files.retain(|path, _| committed.lines().any(|line| line.as_bytes() == path));
            let at = format!("{} {times}", step.as_str());
            match targets(&world).carry_out(&intent).unwrap() {
                // All of it was there already, so the user's commit is as good as ours.
                Carried::Done(applied) => {
                    assert_eq!(applied.commit, Some(head.clone()), "{at}");
                    assert_eq!(world.git(&repository, &["show", "HEAD:new"]), "2");
                }
                Carried::Stopped(stopped) => {
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
fn many_at_once_apply_once() {
    for is_folder in [false, true] {
        let world = World::new();
        let files = [("a", "1\n"), ("b", "1\n"), ("c", "1\n")];
        let resource = match is_folder {
            false => world.repository("user", &files),
            true => {
                for (name, content) in files {
                    write(&world.path("user").join(name), content.as_bytes());
                }
                world.path("user")
            }
        };
        let edit = |tree: &Path| {
            append(&tree.join("a"), b"2\n");
            fs::remove_file(tree.join("b")).unwrap();
            write(&tree.join("new"), b"2\n");
        };
        let request = match is_folder {
            false => on_head(&world, &resource, edit),
            true => on_folder(&world, &resource, edit),
        };
        let intent = ready(&targets(&world), &request);
        let barrier = Barrier::new(8);
        let answers: Vec<Carried> = thread::scope(|scope| {
            let crowd: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        let targets = targets(&world);
                        barrier.wait();
                        targets.carry_out(&intent).unwrap()
                    })
                })
                .collect();
            let crowd = crowd.into_iter();
            crowd.map(|one| one.join().unwrap()).collect()
        });
        assert!(answers.iter().all(|it| *it == answers[0]), "{answers:?}");
        assert!(matches!(answers[0], Carried::Done(_)));
        assert_eq!(fs::read(resource.join("a")).unwrap(), b"1\n2\n");
        if !is_folder {
            assert_eq!(world.git(&resource, &["rev-list", "--count", "HEAD"]), "2");
            assert_eq!(check_health(&world, &resource), "");
        }
    }
}

/// Processes this time, each killed or not, and in the end it is applied once.
#[test]
fn many_processes_and_many_applies_of_one_repository() {
    let world = World::new();
    let repository = world.repository("user", &[("a", "1\n"), ("b", "1\n"), ("c", "1\n")]);
    let requests: Vec<_> = ["a", "b", "c"]
        .map(|name| on_head(&world, &repository, |tree| append(&tree.join(name), b"2\n")))
        .into();
    let targets = targets(&world);
    // Prepared one after the other and carried out at once: one wins, the others are told.
    let intents: Vec<_> = requests.iter().map(|it| ready(&targets, it)).collect();
    let answers: Vec<Carried> = thread::scope(|scope| {
        let crowd: Vec<_> = intents
            .iter()
            .map(|intent| scope.spawn(|| targets.carry_out(intent).unwrap()))
            .collect();
        crowd.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let won = answers.iter().filter(|it| matches!(it, Carried::Done(_)));
    assert_eq!(won.count(), 1, "{answers:?}");
    assert_eq!(check_health(&world, &repository), "");
    assert_eq!(
        world.git(&repository, &["rev-list", "--count", "HEAD"]),
        "2"
    );
    // Who lost prepares anew.
    for ((request, intent), answer) in requests.iter().zip(&intents).zip(&answers) {
        if matches!(answer, Carried::Stopped(_)) {
            targets.take_back(intent).unwrap();
            let intent = ready(&targets, request);
            let deed = Deed::CarryOut(Box::new(intent.clone()));
            thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        assert_eq!(die(&world, &deed, ApplyStep::Pinned, 1), End::Survived);
                    });
                }
            });
            done(&targets, &intent);
        }
    }
    assert_eq!(
        world.git(&repository, &["rev-list", "--count", "HEAD"]),
        "4"
    );
    assert_eq!(check_health(&world, &repository), "");
}

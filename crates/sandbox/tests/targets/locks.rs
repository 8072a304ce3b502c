//! Several targets are locked before anything is decided about them.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cleveragents_domain::id::ApplyId;
use cleveragents_engine::ports::targets::{
    ApplyIntent, ApplyRequest, Carried, ConflictReason, Locked, Prepared, TargetError, TargetLocks,
    Targets,
};
use cleveragents_sandbox::ApplyStep;
use rustix::process::{Pid, Signal, kill_process};

use crate::dying::{Deed, End, Snapshot, die};
use crate::environment::{World, append, listing};
use crate::home::{check_health, done, left_over, on_head, ready, targets, told};

/// Two repositories with a change for each.
struct Two {
    roots: [PathBuf; 2],
    requests: [ApplyRequest; 2],
}

fn two(world: &World) -> Two {
    let roots = ["first", "second"]
        .map(|name| world.repository(name, &[("a", "1\n2\n3\n4\n5\n"), ("b", "1\n")]));
    let edit = |tree: &Path| append(&tree.join("a"), b"6\n");
    let requests = [0, 1].map(|place: usize| on_head(world, &roots[place], edit));
    Two { roots, requests }
}

fn intents(world: &World, two: &Two) -> [ApplyIntent; 2] {
    [0, 1].map(|place: usize| ready(&targets(world), &two.requests[place]))
}

fn held(world: &World, intents: &[ApplyIntent]) -> Box<dyn TargetLocks> {
    match targets(world).lock(intents).unwrap() {
        Locked::Held(locks) => locks,
        Locked::Blocked(conflicts) => panic!("{conflicts:?}"),
    }
}

fn commit(world: &World, root: &Path) -> bool {
    append(&root.join("b"), b"mine\n");
    let commit = ["commit", "-q", "-a", "-m", "mine"];
    world.command(root, "git", &commit).status.success()
}

/// Between the decision and the last commit nobody can commit to any of the targets, so none is
/// changed alone.
#[test]
fn a_commit_waits_until_all_targets_are_changed() {
    let world = World::new();
    let two = two(&world);
    let intents = intents(&world, &two);
    let mut locks = held(&world, &intents);
    for root in &two.roots {
        assert!(!commit(&world, root), "its index and branch are locked");
        let head = world.git(root, &["rev-parse", "HEAD^{tree}"]);
        let other = world.git(root, &["commit-tree", &head, "-p", "HEAD", "-m", "other"]);
        let moving = ["update-ref", "refs/heads/main", &other];
        assert!(!world.command(root, "git", &moving).status.success());
    }
    for (place, intent) in intents.iter().enumerate() {
        let carried = locks.carry_out(intent).unwrap();
        assert!(matches!(carried, Carried::Done(_)), "{carried:?}");
        assert_eq!(check_health(&world, &two.roots[place]), " M b");
        assert!(commit(&world, &two.roots[place]), "its locks are released");
        if let Some(next) = two.roots.get(place + 1) {
            assert!(!commit(&world, next), "the others' are not");
        }
    }
}

/// Several working trees of one repository have a `HEAD` and an index each, and all are locked.
#[test]
fn every_detached_working_tree_of_a_repository_is_locked() {
    let world = World::new();
    let root = world.repository("first", &[("a", "1\n"), ("b", "1\n")]);
    let names = ["one", "two", "three", "four", "five"];
    let edit = |tree: &Path| append(&tree.join("a"), b"2\n");
    let requests = names.map(|name| {
        let path = world.path(name);
        let add = ["worktree", "add", "-q", "--detach", path.to_str().unwrap()];
        world.git(&root, &add);
        on_head(&world, &path, edit)
    });
    // More than are prepared at once, and the answers are in the order of the requests.
    let prepared = targets(&world).prepare_all(&requests);
    let intents: Vec<ApplyIntent> = prepared
        .into_iter()
        .map(|it| match it.unwrap() {
            Prepared::Ready(intent) => *intent,
            other => panic!("{other:?}"),
        })
        .collect();
    let ids = |all: &mut dyn Iterator<Item = ApplyId>| all.collect::<Vec<_>>();
    assert_eq!(
        ids(&mut intents.iter().map(|it| it.id)),
        ids(&mut requests.iter().map(|it| it.id))
    );
    let mut locks = held(&world, &intents);
    for name in names {
        let git_dir = root.join(".git/worktrees").join(name);
        for lock in ["HEAD.lock", "index.lock"] {
            assert!(git_dir.join(lock).exists(), "{name} {lock}");
        }
        assert!(!commit(&world, &world.path(name)), "{name} is locked");
    }
    for intent in &intents {
        let carried = locks.carry_out(intent).unwrap();
        assert!(matches!(carried, Carried::Done(_)), "{carried:?}");
    }
    drop(locks);
    for name in names {
        let path = world.path(name);
        assert_eq!(world.git(&path, &["show", "HEAD:a"]), "1\n2", "{name}");
        assert_eq!(check_health(&world, &path), " M b");
    }
}

/// What was committed before is found while nothing is written anywhere.
#[test]
fn a_commit_before_the_locks_blocks_all_targets() {
    let world = World::new();
    let two = two(&world);
    let intents = intents(&world, &two);
    assert!(commit(&world, &two.roots[1]));
    let before = two.roots.each_ref().map(|root| listing(root));
    let Locked::Blocked(conflicts) = targets(&world).lock(&intents).unwrap() else {
        panic!("the second branch moved");
    };
    let reasons = told(&conflicts);
    let [(_, ConflictReason::Moved { reference, .. })] = &reasons[..] else {
        panic!("{reasons:?}");
    };
    assert_eq!(reference, "main");
    assert_eq!(two.roots.each_ref().map(|root| listing(root)), before);
    for root in &two.roots {
        assert_eq!(left_over(root), Vec::<PathBuf>::new());
        assert!(commit(&world, root), "nothing is locked");
    }
}

/// A process that dies with the locks leaves none that anybody has to remove by hand.
#[test]
fn locks_of_a_killed_process_go_with_what_was_prepared() {
    let world = World::new();
    let two = two(&world);
    let intents = intents(&world, &two);
    let snapshot = Snapshot::of(&world, &["first", "second", "data"]);
    let deed = Deed::Lock(intents.to_vec());
    for step in [ApplyStep::IndexLocked, ApplyStep::BranchLocked] {
        for times in [1, 2] {
            snapshot.put_back();
            assert_eq!(die(&world, &deed, step, times), End::Killed);
            // Whoever comes next locks them again …
            drop(held(&world, &intents));
            // … or takes everything back.
            assert_eq!(die(&world, &deed, step, times), End::Killed);
            for (root, intent) in two.roots.iter().zip(&intents) {
                targets(&world).take_back(intent).unwrap();
                assert_eq!(left_over(root), Vec::<PathBuf>::new());
                assert!(!root.join(".git/HEAD.lock").exists());
                assert!(commit(&world, root), "{}", step.as_str());
            }
        }
    }
}

/// A git that was killed with the branch locked leaves the lock; it is known to be ours, and what
/// somebody else put in its place is not.
#[test]
fn a_lock_of_a_killed_git_is_recognised() {
    let world = World::new();
    let two = two(&world);
    let [intent, _] = intents(&world, &two);
    let root = &two.roots[0];
    let locks = held(&world, std::slice::from_ref(&intent));
    kill_update_ref(root);
    drop(locks);
    let lock = root.join(".git/refs/heads/main.lock");
    assert!(lock.exists() && root.join(".git/HEAD.lock").exists());
    let foreign = fs::read(&lock).unwrap();
    drop(held(&world, std::slice::from_ref(&intent)));
    assert!(!lock.exists() && !root.join(".git/HEAD.lock").exists());
    // The same bytes, written by somebody else.
    crate::environment::write(&lock, &foreign);
    let refused = targets(&world).lock(std::slice::from_ref(&intent));
    let busy = TargetError::Busy { lock: lock.clone() };
    assert!(
        matches!(&refused, Err(error) if *error == busy),
        "{refused:?}"
    );
    assert!(lock.exists());
    fs::remove_file(&lock).unwrap();
    done(&targets(&world), &intent);
}

/// Whoever is killed together with git before the locks are noted leaves an empty note.
#[test]
fn a_lock_of_a_git_that_was_killed_before_it_was_noted_is_recognised() {
    let world = World::new();
    let two = two(&world);
    let [intent, _] = intents(&world, &two);
    let root = &two.roots[0];
    let lock = root.join(".git/refs/heads/main.lock");
    let head_lock = root.join(".git/HEAD.lock");
    let note = world.path(&format!("data/applies/{}/ref-locks.json", intent.id));
    let leave_locks = || {
        let locks = held(&world, std::slice::from_ref(&intent));
        kill_update_ref(root);
        drop(locks);
        crate::environment::write(&note, b"[]");
        assert!(lock.exists() && head_lock.exists());
    };
    leave_locks();
    drop(held(&world, std::slice::from_ref(&intent)));
    assert!(!lock.exists() && !head_lock.exists());
    // Another commit in it: a lock of another git.
    leave_locks();
    crate::environment::write(&lock, "1".repeat(40).as_bytes());
    let refused = targets(&world).lock(std::slice::from_ref(&intent));
    let busy = TargetError::Busy { lock: lock.clone() };
    assert!(
        matches!(&refused, Err(error) if *error == busy),
        "{refused:?}"
    );
    assert!(lock.exists() && head_lock.exists());
    for lock in [&lock, &head_lock] {
        fs::remove_file(lock).unwrap();
    }
    leave_locks();
    targets(&world).take_back(&intent).unwrap();
    assert!(!lock.exists() && !head_lock.exists());
    assert_eq!(left_over(root), Vec::<PathBuf>::new());
}

/// Our process outlives the git that holds the locks.
#[test]
fn locks_of_a_git_that_was_killed_alone_are_removed() {
    let world = World::new();
    let two = two(&world);
    let [intent, _] = intents(&world, &two);
    let root = &two.roots[0];
    let mut locks = held(&world, std::slice::from_ref(&intent));
    kill_update_ref(root);
    let failed = locks.carry_out(&intent).unwrap_err();
    assert!(failed.to_string().contains("without an answer"), "{failed}");
    drop(locks);
    for lock in ["refs/heads/main.lock", "HEAD.lock"] {
        assert!(!root.join(".git").join(lock).exists(), "{lock}");
    }
    done(&targets(&world), &intent);
    assert_eq!(check_health(&world, root), "");
}

/// A git that is killed before it writes our commit into the lock leaves an empty file.
#[test]
fn an_empty_lock_of_a_killed_git_is_recognised() {
    let world = World::new();
    let empty = EmptyLock::new(&world);
    empty.leave();
    drop(held(&world, std::slice::from_ref(&empty.intent)));
    assert!(!empty.lock.exists());
    empty.leave();
    targets(&world).take_back(&empty.intent).unwrap();
    assert!(!empty.lock.exists());
    assert_eq!(left_over(&empty.root), Vec::<PathBuf>::new());
}

#[test]
fn an_empty_lock_from_before_the_apply_is_kept() {
    let world = World::new();
    let empty = EmptyLock::new(&world);
    let lock = empty.leave();
    let hour = std::time::Duration::from_secs(3600);
    let modified = lock.metadata().unwrap().modified().unwrap();
    lock.set_modified(modified - hour).unwrap();
    drop(lock);
    empty.is_kept(&world);
}

#[test]
fn an_empty_lock_that_a_process_has_open_is_kept() {
    let world = World::new();
    let empty = EmptyLock::new(&world);
    let lock = empty.leave();
    empty.is_kept(&world);
    drop(lock);
    done(&targets(&world), &empty.intent);
}

/// Git closes the empty lock of a branch that it is about to delete.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the user's git runs while ours finds its lock"
)]
fn an_empty_lock_is_kept_while_git_is_at_work_in_the_repository() {
    let world = World::new();
    let empty = EmptyLock::new(&world);
    drop(empty.leave());
    // In a shell, because git processes that this process itself starts do not count.
    let mut shell = Command::new("sh")
        .args(["-c", "git cat-file --batch; exit 0"])
        .current_dir(&empty.root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = shell.stdin.take().unwrap();
    stdin.write_all(b"x\n").unwrap();
    let mut answer = String::new();
    let mut stdout = BufReader::new(shell.stdout.take().unwrap());
    stdout.read_line(&mut answer).unwrap();
    assert_eq!(answer, "x missing\n");
    empty.is_kept(&world);
    drop(stdin);
    assert!(shell.wait().unwrap().success());
    done(&targets(&world), &empty.intent);
}

/// A branch with an empty lock, and a transaction whose locks were not noted.
struct EmptyLock {
    root: PathBuf,
    intent: ApplyIntent,
    lock: PathBuf,
    note: PathBuf,
}

impl EmptyLock {
    fn new(world: &World) -> Self {
        let two = two(world);
        let [intent, _] = intents(world, &two);
        let [root, _] = two.roots;
        Self {
            lock: root.join(".git/refs/heads/main.lock"),
            note: world.path(&format!("data/applies/{}/ref-locks.json", intent.id)),
            root,
            intent,
        }
    }

    fn leave(&self) -> fs::File {
        crate::environment::write(&self.note, b"[]");
        fs::File::create(&self.lock).unwrap()
    }

    fn is_kept(&self, world: &World) {
        let refused = targets(world).lock(std::slice::from_ref(&self.intent));
        let busy = TargetError::Busy {
            lock: self.lock.clone(),
        };
        assert!(
            matches!(&refused, Err(error) if *error == busy),
            "{refused:?}"
        );
        assert!(self.lock.exists());
    }
}

/// Kills the git that holds the lock of a branch in this repository.
fn kill_update_ref(root: &Path) {
    let wanted = format!("--git-dir={}", root.join(".git").display());
    let mut killed = 0;
    for entry in fs::read_dir("/proc").unwrap() {
        let path = entry.unwrap().path();
        let line = fs::read(path.join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        let words: Vec<&str> = line.split('\0').collect();
        if words.contains(&"update-ref") && words.contains(&wanted.as_str()) {
            let process: i32 = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
            kill_process(Pid::from_raw(process).unwrap(), Signal::KILL).unwrap();
            killed += 1;
        }
    }
    assert_eq!(killed, 1);
}

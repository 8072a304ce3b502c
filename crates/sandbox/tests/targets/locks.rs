//! Several targets are locked before anything is decided about them.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cleveragents_domain::id::ApplyId;
use cleveragents_ports::targets::{
    ApplyIntent, ApplyRequest, ApplyTargets, CommitOutcome, ConflictReason, LockOutcome,
    PrepareOutcome, TargetError, TargetLocks,
};
use cleveragents_sandbox::ApplyStep;
use rustix::process::{Pid, Signal, kill_process};

use crate::apply_helpers::{
    check_health, commit_done, find_leftovers, path_reasons, prepare_ready, request_on_head,
    targets,
};
use crate::crash_process::{CrashAction, FolderSnapshot, ProcessEnd, kill_at_step};
use crate::environment::{SandboxTestWorld, append, listing};

/// Two repositories with a change for each.
struct TwoRepositories {
    roots: [PathBuf; 2],
    requests: [ApplyRequest; 2],
}

fn two_repositories(world: &SandboxTestWorld) -> TwoRepositories {
    let roots = ["first", "second"]
        .map(|name| world.repository(name, &[("a", "1\n2\n3\n4\n5\n"), ("b", "1\n")]));
    let edit = |tree: &Path| append(&tree.join("a"), b"6\n");
    let requests = [0, 1].map(|place: usize| request_on_head(world, &roots[place], edit));
    TwoRepositories { roots, requests }
}

fn intents(world: &SandboxTestWorld, two: &TwoRepositories) -> [ApplyIntent; 2] {
    [0, 1].map(|place: usize| prepare_ready(&targets(world), &two.requests[place]))
}

fn lock_all(world: &SandboxTestWorld, intents: &[ApplyIntent]) -> Box<dyn TargetLocks> {
    match targets(world).lock(intents).unwrap() {
        LockOutcome::Held(locks) => locks,
        LockOutcome::Blocked(conflicts) => panic!("{conflicts:?}"),
    }
}

fn try_commit(world: &SandboxTestWorld, root: &Path) -> bool {
    append(&root.join("b"), b"mine\n");
    let commit = ["commit", "-q", "-a", "-m", "mine"];
    world.command(root, "git", &commit).status.success()
}

/// Between the decision and the last commit no one can commit to any of the targets, so none is
/// changed alone.
#[test]
fn commits_wait_until_all_targets_are_changed() {
    let world = SandboxTestWorld::new();
    let two = two_repositories(&world);
    let intents = intents(&world, &two);
    let mut locks = lock_all(&world, &intents);
    for root in &two.roots {
        assert!(!try_commit(&world, root), "its index and branch are locked");
        let head = world.git(root, &["rev-parse", "HEAD^{tree}"]);
        let other = world.git(root, &["commit-tree", &head, "-p", "HEAD", "-m", "other"]);
        let moving = ["update-ref", "refs/heads/main", &other];
        assert!(!world.command(root, "git", &moving).status.success());
    }
    for (place, intent) in intents.iter().enumerate() {
        let carried = locks.commit(intent).unwrap();
        assert!(matches!(carried, CommitOutcome::Done(_)), "{carried:?}");
        assert_eq!(check_health(&world, &two.roots[place]), " M b");
        assert!(
            try_commit(&world, &two.roots[place]),
            "its locks are released"
        );
        if let Some(next) = two.roots.get(place + 1) {
            assert!(!try_commit(&world, next), "the others' are not");
        }
    }
}

/// Each of several working trees of one repository has a `HEAD` and an index, and all are locked.
#[test]
fn every_detached_working_tree_of_a_repository_is_locked() {
    let world = SandboxTestWorld::new();
    let root = world.repository("first", &[("a", "1\n"), ("b", "1\n")]);
    let names = ["one", "two", "three", "four", "five"];
    let edit = |tree: &Path| append(&tree.join("a"), b"2\n");
    let requests = names.map(|name| {
        let path = world.path(name);
        let add = ["worktree", "add", "-q", "--detach", path.to_str().unwrap()];
        world.git(&root, &add);
        request_on_head(&world, &path, edit)
    });
    // More than are prepared at once, and the results are in the order of the requests.
    let prepared = targets(&world).prepare_all(&requests);
    let intents: Vec<ApplyIntent> = prepared
        .into_iter()
        .map(|it| match it.unwrap() {
            PrepareOutcome::Ready(intent) => *intent,
            other => panic!("{other:?}"),
        })
        .collect();
    let ids = |all: &mut dyn Iterator<Item = ApplyId>| all.collect::<Vec<_>>();
    assert_eq!(
        ids(&mut intents.iter().map(|it| it.id)),
        ids(&mut requests.iter().map(|it| it.id))
    );
    let mut locks = lock_all(&world, &intents);
    for name in names {
        let git_dir = root.join(".git/worktrees").join(name);
        for lock in ["HEAD.lock", "index.lock"] {
            assert!(git_dir.join(lock).exists(), "{name} {lock}");
        }
        assert!(!try_commit(&world, &world.path(name)), "{name} is locked");
    }
    for intent in &intents {
        let carried = locks.commit(intent).unwrap();
        assert!(matches!(carried, CommitOutcome::Done(_)), "{carried:?}");
    }
    drop(locks);
    for name in names {
        let path = world.path(name);
        assert_eq!(world.git(&path, &["show", "HEAD:a"]), "1\n2", "{name}");
        assert_eq!(check_health(&world, &path), " M b");
    }
}

/// An earlier foreign commit is detected while nothing is written anywhere.
#[test]
fn a_commit_before_the_locks_blocks_all_targets() {
    let world = SandboxTestWorld::new();
    let two = two_repositories(&world);
    let intents = intents(&world, &two);
    assert!(try_commit(&world, &two.roots[1]));
    let before = two.roots.each_ref().map(|root| listing(root));
    let LockOutcome::Blocked(conflicts) = targets(&world).lock(&intents).unwrap() else {
        panic!("the second branch moved");
    };
    let reasons = path_reasons(&conflicts);
    let [(_, ConflictReason::Moved { reference, .. })] = &reasons[..] else {
        panic!("{reasons:?}");
    };
    assert_eq!(reference, "main");
    assert_eq!(two.roots.each_ref().map(|root| listing(root)), before);
    for root in &two.roots {
        assert_eq!(find_leftovers(root), Vec::<PathBuf>::new());
        assert!(try_commit(&world, root), "nothing is locked");
    }
}

/// A process that is killed with the locks leaves none that the user has to remove.
#[test]
fn locks_of_a_killed_process_are_removed() {
    let world = SandboxTestWorld::new();
    let two = two_repositories(&world);
    let intents = intents(&world, &two);
    let snapshot = FolderSnapshot::take(&world, &["first", "second", "data"]);
    let action = CrashAction::Lock(intents.to_vec());
    for step in [ApplyStep::IndexLocked, ApplyStep::BranchLocked] {
        for times in [1, 2] {
            snapshot.restore();
            assert_eq!(
                kill_at_step(&world, &action, step, times),
                ProcessEnd::Killed
            );
            // The next call locks them again …
            drop(lock_all(&world, &intents));
            // … or rolls everything back.
            assert_eq!(
                kill_at_step(&world, &action, step, times),
                ProcessEnd::Killed
            );
            for (root, intent) in two.roots.iter().zip(&intents) {
                targets(&world).discard_prepared(intent).unwrap();
                assert_eq!(find_leftovers(root), Vec::<PathBuf>::new());
                assert!(!root.join(".git/HEAD.lock").exists());
                assert!(try_commit(&world, root), "{}", step.as_str());
            }
        }
    }
}

/// A git that was killed with the branch locked leaves the lock. It is recognised as ours, but a file
/// that another program put in its place is not.
#[test]
fn a_lock_of_a_killed_git_is_recognised() {
    let world = SandboxTestWorld::new();
    let two = two_repositories(&world);
    let [intent, _] = intents(&world, &two);
    let root = &two.roots[0];
    let locks = lock_all(&world, std::slice::from_ref(&intent));
    kill_update_ref(root);
    drop(locks);
    let lock = root.join(".git/refs/heads/main.lock");
    assert!(lock.exists() && root.join(".git/HEAD.lock").exists());
    let foreign = fs::read(&lock).unwrap();
    drop(lock_all(&world, std::slice::from_ref(&intent)));
    assert!(!lock.exists() && !root.join(".git/HEAD.lock").exists());
    // The same bytes, written by another program.
    crate::environment::write(&lock, &foreign);
    let refused = targets(&world).lock(std::slice::from_ref(&intent));
    let busy = TargetError::Busy { lock: lock.clone() };
    assert!(
        matches!(&refused, Err(error) if *error == busy),
        "{refused:?}"
    );
    assert!(lock.exists());
    fs::remove_file(&lock).unwrap();
    commit_done(&targets(&world), &intent);
}

/// If our process is killed together with git before the locks are recorded, the record is empty.
#[test]
fn an_unrecorded_lock_of_a_killed_git_is_recognised() {
    let world = SandboxTestWorld::new();
    let two = two_repositories(&world);
    let [intent, _] = intents(&world, &two);
    let root = &two.roots[0];
    let lock = root.join(".git/refs/heads/main.lock");
    let head_lock = root.join(".git/HEAD.lock");
    let note = world.path(&format!("data/applies/{}/ref-locks.json", intent.id));
    let leave_locks = || {
        let locks = lock_all(&world, std::slice::from_ref(&intent));
        kill_update_ref(root);
        drop(locks);
        crate::environment::write(&note, b"[]");
        assert!(lock.exists() && head_lock.exists());
    };
    leave_locks();
    drop(lock_all(&world, std::slice::from_ref(&intent)));
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
    targets(&world).discard_prepared(&intent).unwrap();
    assert!(!lock.exists() && !head_lock.exists());
    assert_eq!(find_leftovers(root), Vec::<PathBuf>::new());
}

/// Our process outlives the git that holds the locks.
#[test]
fn locks_of_a_git_that_was_killed_alone_are_removed() {
    let world = SandboxTestWorld::new();
    let two = two_repositories(&world);
    let [intent, _] = intents(&world, &two);
    let root = &two.roots[0];
    let mut locks = lock_all(&world, std::slice::from_ref(&intent));
    kill_update_ref(root);
    let failed = locks.commit(&intent).unwrap_err();
    assert!(failed.to_string().contains("without an answer"), "{failed}");
    drop(locks);
    for lock in ["refs/heads/main.lock", "HEAD.lock"] {
        assert!(!root.join(".git").join(lock).exists(), "{lock}");
    }
    commit_done(&targets(&world), &intent);
    assert_eq!(check_health(&world, root), "");
}

/// A git that is killed before it writes our commit into the lock leaves an empty file.
#[test]
fn an_empty_lock_of_a_killed_git_is_recognised() {
    let world = SandboxTestWorld::new();
    let empty = EmptyLock::new(&world);
    empty.create_lock();
    drop(lock_all(&world, std::slice::from_ref(&empty.intent)));
    assert!(!empty.lock.exists());
    empty.create_lock();
    targets(&world).discard_prepared(&empty.intent).unwrap();
    assert!(!empty.lock.exists());
    assert_eq!(find_leftovers(&empty.root), Vec::<PathBuf>::new());
}

#[test]
fn an_empty_lock_from_before_the_apply_is_kept() {
    let world = SandboxTestWorld::new();
    let empty = EmptyLock::new(&world);
    let lock = empty.create_lock();
    let hour = std::time::Duration::from_secs(3600);
    let modified = lock.metadata().unwrap().modified().unwrap();
    lock.set_modified(modified - hour).unwrap();
    drop(lock);
    empty.check_kept(&world);
}

#[test]
fn an_empty_lock_that_a_process_has_open_is_kept() {
    let world = SandboxTestWorld::new();
    let empty = EmptyLock::new(&world);
    let lock = empty.create_lock();
    empty.check_kept(&world);
    drop(lock);
    commit_done(&targets(&world), &empty.intent);
}

/// Git closes the empty lock of a branch that it is about to delete.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the user's git runs while ours finds its lock"
)]
fn an_empty_lock_is_kept_while_git_is_at_work_in_the_repository() {
    let world = SandboxTestWorld::new();
    let empty = EmptyLock::new(&world);
    drop(empty.create_lock());
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
    empty.check_kept(&world);
    drop(stdin);
    assert!(shell.wait().unwrap().success());
    commit_done(&targets(&world), &empty.intent);
}

/// A branch with an empty lock, and a transaction whose locks were not recorded.
struct EmptyLock {
    root: PathBuf,
    intent: ApplyIntent,
    lock: PathBuf,
    note: PathBuf,
}

impl EmptyLock {
    fn new(world: &SandboxTestWorld) -> Self {
        let two = two_repositories(world);
        let [intent, _] = intents(world, &two);
        let [root, _] = two.roots;
        Self {
            lock: root.join(".git/refs/heads/main.lock"),
            note: world.path(&format!("data/applies/{}/ref-locks.json", intent.id)),
            root,
            intent,
        }
    }

    fn create_lock(&self) -> fs::File {
        crate::environment::write(&self.note, b"[]");
        fs::File::create(&self.lock).unwrap()
    }

    fn check_kept(&self, world: &SandboxTestWorld) {
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

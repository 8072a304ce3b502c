//! The crash matrix: killed at every step, and completed by the next call.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleveragents_ports::targets::{
    ApplyIntent, ApplyTargets, CommitOutcome, ConflictReason, Destination, PrepareOutcome,
    StoppedCommit,
};
use cleveragents_sandbox::{ApplyStep, GitSettings, LocalTargets, NoWatcher};

use crate::apply_helpers::{
    absolute, check_health, commit_done, find_leftovers, path_reasons, prepare_ready,
    request_on_folder, request_on_head, targets, with_destination, with_new_id, write_program,
};
use crate::crash_process::{
    CrashAction, FolderSnapshot, ProcessEnd, at_every_step, kill_at_step, kill_at_step_with, rounds,
};
use crate::environment::{
    SandboxTestWorld, TreeListing, append, git_settings, link, listing, set_mode, write,
};

pub(crate) const FILES: [(&str, &str); 6] = [
    ("change", "1\n"),
    ("go/away", "1\n"),
    ("run", "1\n"),
    ("swap", "1\n"),
    ("keep", "1\n"),
    ("other", "1\n"),
];

/// Every kind of change, with few files.
pub(crate) fn edit(tree: &Path) {
    append(&tree.join("change"), b"2\n");
    fs::remove_dir_all(tree.join("go")).unwrap();
    set_mode(&tree.join("run"), 0o755);
    fs::remove_file(tree.join("swap")).unwrap();
    write(&tree.join("swap/inside"), b"2\n");
    link(&tree.join("link"), "change");
}

/// The user's own work on paths that the plan does not touch.
fn edit_other_paths(world: &SandboxTestWorld, repository: &Path) {
    append(&repository.join("keep"), b"mine\n");
    append(&repository.join("other"), b"staged\n");
    world.git(repository, &["add", "other"]);
    write(&repository.join("untracked"), b"mine\n");
}

/// The user's state before the apply and the expected state after it.
struct CrashMatrix<'a> {
    world: &'a SandboxTestWorld,
    repository: PathBuf,
    intent: ApplyIntent,
    snapshot: FolderSnapshot<'a>,
    after: TreeListing,
    /// Git's status of the user's own work.
    user_status: String,
}

impl<'a> CrashMatrix<'a> {
    fn for_commit(
        world: &'a SandboxTestWorld,
        prepare: impl FnOnce(&SandboxTestWorld, &Path),
    ) -> Self {
        let repository = world.repository("user", &FILES);
        let request = request_on_head(world, &repository, edit);
        prepare(world, &repository);
        let intent = prepare_ready(&targets(world), &request);
        let snapshot = FolderSnapshot::take(world, &["user", "data"]);
        let user_status = world.git(&repository, &["status", "--porcelain"]);
        commit_done(&targets(world), &intent);
        assert_eq!(check_health(world, &repository), user_status);
        let after = listing(&repository);
        Self {
            world,
            repository,
            intent,
            snapshot,
            after,
            user_status,
        }
    }

    fn kill(&self, step: ApplyStep, times: usize) -> ProcessEnd {
        self.snapshot.restore();
        let action = CrashAction::Commit(Box::new(self.intent.clone()));
        kill_at_step(self.world, &action, step, times)
    }

    fn head(&self) -> String {
        self.world.git(&self.repository, &["rev-parse", "HEAD"])
    }

    /// Asserts that the whole change is applied and nothing else changed.
    fn check_all(&self, at: &str) {
        assert_eq!(listing(&self.repository), self.after, "{at}");
        assert_eq!(
            check_health(self.world, &self.repository),
            self.user_status,
            "{at}"
        );
        let log = self.world.git(&self.repository, &["log", "--format=%s"]);
        assert_eq!(log, "what the plan did\na commit", "{at}");
    }
}

pub(crate) const COMMIT_STEPS: &[ApplyStep] = {
    let (_, steps) = ApplyStep::ALL.split_at(6);
    steps
};

/// After a kill anywhere, the next call completes the apply, and the one after that changes nothing.
fn check_crash_and_resume(prepare: impl FnOnce(&SandboxTestWorld, &Path)) {
    let world = SandboxTestWorld::new();
    let matrix = CrashMatrix::for_commit(&world, prepare);
    let mut killed = 0;
    for _ in 0..rounds() {
        at_every_step(COMMIT_STEPS, |step, times| {
            let end = matrix.kill(step, times);
            let at = format!("{} {times}", step.as_str());
            killed += usize::from(end == ProcessEnd::Killed);
            let applied = commit_done(&targets(&world), &matrix.intent);
            matrix.check_all(&at);
            assert_eq!(
                commit_done(&targets(&world), &matrix.intent),
                applied,
                "{at}"
            );
            matrix.check_all(&at);
            end
        });
    }
    assert!(killed >= 20, "only {killed} were killed");
}

#[test]
fn killed_at_every_step_with_a_clean_tree() {
    check_crash_and_resume(|_, _| {});
}

#[test]
fn killed_at_every_step_with_unrelated_changes() {
    check_crash_and_resume(edit_other_paths);
}

#[test]
fn changes_on_a_changed_path_stop_the_apply_first() {
    let world = SandboxTestWorld::new();
    let matrix = CrashMatrix::for_commit(&world, |_, _| {});
    for path in ["change", "go/away", "run", "swap", "link"] {
        matrix.snapshot.restore();
        let mine = matrix.repository.join(path);
        write(&mine, b"mine\n");
        let head = matrix.head();
        let dirty = listing(&matrix.repository);
        let status = world.git(&matrix.repository, &["status", "--porcelain"]);
        let Ok(CommitOutcome::Stopped(stopped)) = targets(&world).commit(&matrix.intent) else {
            panic!("{path}");
        };
        assert_eq!(listing(&matrix.repository), dirty, "{path}");
        assert_eq!(matrix.head(), head, "{path}");
        assert_eq!(check_health(&world, &matrix.repository), status, "{path}");
        assert!(!stopped.conflicts.is_empty(), "{path}");
    }
}

/// If the user edits a changed path between the kill and the next call, the edit is kept. The apply
/// stops with a conflict and completes once the edit is gone.
#[test]
fn an_edit_between_the_kill_and_the_next_call_survives() {
    let world = SandboxTestWorld::new();
    let matrix = CrashMatrix::for_commit(&world, edit_other_paths);
    let targets = targets(&world);
    for _ in 0..rounds() {
        at_every_step(COMMIT_STEPS, |step, times| {
            let end = matrix.kill(step, times);
            let at = format!("{} {times}", step.as_str());
            let path = matrix.repository.join("change");
            let was = fs::read(&path).unwrap();
            append(&path, b"mine\n");
            let edited = listing(&matrix.repository);
            let is_through = matrix.head() != original_head(&matrix);
            match targets.commit(&matrix.intent).unwrap() {
                CommitOutcome::Done(_) => assert!(is_through, "{at}"),
                CommitOutcome::Stopped(StoppedCommit { conflicts, .. }) => {
                    assert!(!is_through, "{at}");
                    let expected = [("change".to_owned(), ConflictReason::Changed)];
                    assert_eq!(path_reasons(&conflicts), expected, "{at}");
                }
            }
            let kept = fs::read(&path).unwrap();
            assert_eq!(kept, [&was[..], b"mine\n"].concat(), "{at}");
            // Only leftovers were removed.
            let now = listing(&matrix.repository);
            assert!(
                now.iter().all(|(path, it)| edited.get(path) == Some(it)),
                "{at}"
            );
            assert_eq!(
                find_leftovers(&matrix.repository),
                Vec::<PathBuf>::new(),
                "{at}"
            );
            write(&path, &was);
            commit_done(&targets, &matrix.intent);
            matrix.check_all(&at);
            end
        });
    }
}

fn original_head(matrix: &CrashMatrix<'_>) -> String {
    let range = format!("{}^", commit_of(&matrix.intent));
    matrix.world.git(&matrix.repository, &["rev-parse", &range])
}

fn commit_of(intent: &ApplyIntent) -> &str {
    match &intent.effect {
        cleveragents_ports::targets::ApplyEffect::Commit(effect) => &effect.new,
        other => panic!("{other:?}"),
    }
}

/// If preparation is killed, it can be repeated or discarded, and nothing was visible.
#[test]
fn killed_while_preparing_nothing_is_visible() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &FILES);
    let request = request_on_head(&world, &repository, edit);
    let snapshot = FolderSnapshot::take(&world, &["user", "data"]);
    let action = CrashAction::Prepare(Box::new(request.clone()));
    let mut killed = 0;
    for _ in 0..rounds() {
        at_every_step(&ApplyStep::ALL, |step, times| {
            snapshot.restore();
            let state = world.state_of(&repository);
            let end = kill_at_step(&world, &action, step, times);
            killed += usize::from(end == ProcessEnd::Killed);
            let at = format!("{} {times}", step.as_str());
            assert_eq!(world.state_of(&repository), state, "{at}");
            let dirty = ["--no-optional-locks", "status", "--porcelain"];
            assert_eq!(world.git(&repository, &dirty), "", "{at}");
            let targets = targets(&world);
            if step < ApplyStep::Pinned || step == ApplyStep::IntentWritten {
                targets
                    .discard_orphaned(request.id, &request.resource)
                    .unwrap();
                assert_eq!(world.state_of(&repository), state, "{at}");
                let refs = ["for-each-ref", "refs/cleveragents/apply"];
                assert_eq!(world.git(&repository, &refs), "", "{at}");
                assert_eq!(targets.list(), Ok(Vec::new()));
                assert_eq!(fs::read_dir(world.path("data/applies")).unwrap().count(), 0);
                assert_eq!(find_leftovers(&repository), Vec::<PathBuf>::new(), "{at}");
            }
            let Ok(PrepareOutcome::Ready(intent)) = targets.prepare(&request) else {
                panic!("{at}");
            };
            assert_eq!(targets.list(), Ok(vec![request.id]));
            commit_done(&targets, &intent);
            assert_eq!(check_health(&world, &repository), "", "{at}");
            assert_eq!(find_leftovers(&repository), Vec::<PathBuf>::new(), "{at}");
            end
        });
    }
    assert_eq!(killed as u32, 6 * rounds());
}

/// The same for a folder without git: killed anywhere, completed by the next call.
#[test]
fn a_folder_survives_a_kill_at_every_step() {
    let world = SandboxTestWorld::new();
    let folder = world.path("user");
    for (name, content) in FILES {
        write(&folder.join(name), content.as_bytes());
    }
    write(&folder.join("mine"), b"mine\n");
    let before = listing(&folder);
    let request = request_on_folder(&world, &folder, edit);
    let intent = prepare_ready(&targets(&world), &request);
    let snapshot = FolderSnapshot::take(&world, &["user", "data"]);
    commit_done(&targets(&world), &intent);
    let after = listing(&folder);
    assert_ne!(before, after);
    let action = CrashAction::Commit(Box::new(intent.clone()));
    let mut killed = 0;
    for _ in 0..rounds() {
        at_every_step(COMMIT_STEPS, |step, times| {
            let at = format!("{} {times}", step.as_str());
            snapshot.restore();
            let end = kill_at_step(&world, &action, step, times);
            killed += usize::from(end == ProcessEnd::Killed);
            let path = folder.join("change");
            let was = fs::read(&path).unwrap();
            append(&path, b"mine\n");
            match targets(&world).commit(&intent).unwrap() {
                CommitOutcome::Done(_) => {
                    assert!(
                        end == ProcessEnd::Survived || step == ApplyStep::DoneRecorded,
                        "{at}"
                    );
                }
                CommitOutcome::Stopped(stopped) => {
                    let expected = [("change".to_owned(), ConflictReason::Changed)];
                    assert_eq!(path_reasons(&stopped.conflicts), expected, "{at}");
                }
            }
            assert_eq!(
                fs::read(&path).unwrap(),
                [&was[..], b"mine\n"].concat(),
                "{at}"
            );
            assert_eq!(find_leftovers(&folder), Vec::<PathBuf>::new(), "{at}");
            write(&path, &was);
            commit_done(&targets(&world), &intent);
            assert_eq!(listing(&folder), after, "{at}");
            end
        });
    }
    assert!(killed >= 15, "only {killed} were killed");
}

/// Killed after everything was written; then another program moved the branch, and the restore is killed
/// at every step: in the end nothing of the apply is left.
#[test]
fn killed_again_while_restoring() {
    let world = SandboxTestWorld::new();
    let matrix = CrashMatrix::for_commit(&world, edit_other_paths);
    matrix.snapshot.restore();
    let before = listing(&matrix.repository);
    let action = CrashAction::Commit(Box::new(matrix.intent.clone()));
    assert_eq!(
        kill_at_step(&world, &action, ApplyStep::IndexReplaced, 1),
        ProcessEnd::Killed
    );
    let user = &matrix.repository;
    let tree = world.git(user, &["rev-parse", "HEAD^{tree}"]);
    let arguments = ["commit-tree", &tree, "-p", "HEAD", "-m", "other"];
    let other = world.git(user, &arguments);
    world.git(user, &["update-ref", "refs/heads/main", &other]);
    fs::remove_dir_all(world.path("snapshot")).unwrap();
    let snapshot = FolderSnapshot::take(&world, &["user", "data"]);
    let mut killed = 0;
    at_every_step(COMMIT_STEPS, |step, times| {
        snapshot.restore();
        let end = kill_at_step(&world, &action, step, times);
        killed += usize::from(end == ProcessEnd::Killed);
        let at = format!("{} {times}", step.as_str());
        let Ok(CommitOutcome::Stopped(stopped)) = targets(&world).commit(&matrix.intent) else {
            panic!("{at}");
        };
        assert_eq!(stopped.written, [], "{at}");
        assert_eq!(listing(user), before, "{at}");
        assert_eq!(check_health(&world, user), matrix.user_status, "{at}");
        assert_eq!(matrix.head(), other, "{at}");
        end
    });
    assert!(killed >= 12, "only {killed} were killed");
}

/// Two working trees of one branch, each with an index of its own.
#[test]
fn a_branch_checked_out_twice_survives_a_kill_at_every_step() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &FILES);
    let linked = world.path("linked");
    let path = linked.to_str().unwrap();
    world.git(&repository, &["worktree", "add", "-q", "-f", path, "main"]);
    append(&linked.join("keep"), b"mine\n");
    let request = request_on_head(&world, &repository, |tree| {
        append(&tree.join("change"), b"2\n");
        fs::remove_dir_all(tree.join("go")).unwrap();
    });
    let intent = prepare_ready(&targets(&world), &request);
    let snapshot = FolderSnapshot::take(&world, &["user", "linked", "data"]);
    let action = CrashAction::Commit(Box::new(intent.clone()));
    let mut killed = 0;
    for _ in 0..rounds() {
        at_every_step(COMMIT_STEPS, |step, times| {
            snapshot.restore();
            let end = kill_at_step(&world, &action, step, times);
            killed += usize::from(end == ProcessEnd::Killed);
            let at = format!("{} {times}", step.as_str());
            commit_done(&targets(&world), &intent);
            assert_eq!(check_health(&world, &repository), "", "{at}");
            assert_eq!(check_health(&world, &linked), " M keep", "{at}");
            for root in [&repository, &linked] {
                assert_eq!(fs::read(root.join("change")).unwrap(), b"1\n2\n", "{at}");
                assert!(!root.join("go").exists(), "{at}");
            }
            end
        });
    }
    assert!(killed >= 17, "only {killed} were killed");
}

/// Files alone, and a patch.
#[test]
fn other_destinations_survive_a_kill_at_every_step() {
    let world = SandboxTestWorld::new();
    let repository = world.repository("user", &FILES);
    let request = request_on_head(&world, &repository, edit);
    let file = repository.join("out.patch");
    for destination in [Destination::Worktree, Destination::Patch(absolute(&file))] {
        let request = with_destination(with_new_id(&world, &request), destination);
        let intent = prepare_ready(&targets(&world), &request);
        let snapshot = FolderSnapshot::take(&world, &["user", "data"]);
        commit_done(&targets(&world), &intent);
        let after = listing(&repository);
        let action = CrashAction::Commit(Box::new(intent.clone()));
        at_every_step(COMMIT_STEPS, |step, times| {
            snapshot.restore();
            let end = kill_at_step(&world, &action, step, times);
            commit_done(&targets(&world), &intent);
            assert_eq!(listing(&repository), after, "{} {times}", step.as_str());
            assert_eq!(find_leftovers(&repository), Vec::<PathBuf>::new());
            end
        });
        snapshot.restore();
        fs::remove_dir_all(world.path("snapshot")).unwrap();
    }
}

/// A git that was started before the kill may outlive it and move the branch while the next call is
/// running. A git that is itself killed is run again.
#[test]
fn a_git_that_outlives_its_process_is_harmless() {
    let world = SandboxTestWorld::new();
    let matrix = CrashMatrix::for_commit(&world, edit_other_paths);
    let action = CrashAction::Commit(Box::new(matrix.intent.clone()));
    for victim in ["$PPID", "$$"] {
        for command in [
            "update-ref --create-reflog",
            "update-index -z",
            "update-index -q",
        ] {
            for _ in 0..2 {
                matrix.snapshot.restore();
                let text = format!(
                    "#!/bin/sh\ncase \"$*\" in *\"{command}\"*) kill -9 {victim};; esac\nexec git \"$@\"\n"
                );
                let program = write_program(&world, &format!("git-{}", world.next_id()), &text);
                let targets = targets(&world);
                if victim == "$PPID" {
                    let end =
                        kill_at_step_with(&world, &action, &program, (ApplyStep::DoneRecorded, 1));
                    assert_eq!(end, ProcessEnd::Killed, "{command}");
                } else {
                    let settings = GitSettings {
                        program,
                        ..git_settings(world.path("home"))
                    };
                    let watcher = Arc::new(NoWatcher);
                    let hurt = LocalTargets::open(&world.path("data"), settings, watcher).unwrap();
                    // The refresh is optional, so its failure is not an error.
                    let failed = hurt.commit(&matrix.intent).is_err();
                    assert_eq!(failed, command != "update-index -q");
                }
                commit_done(&targets, &matrix.intent);
                matrix.check_all(command);
            }
        }
    }
}

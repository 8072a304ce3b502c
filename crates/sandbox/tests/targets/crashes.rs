//! The crash matrix: killed at every step, and brought to an end by whoever comes next.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleveragents_engine::ports::targets::{
    ApplyIntent, Carried, ConflictReason, Destination, Prepared, Stopped, Targets,
};
use cleveragents_sandbox::{ApplyStep, GitSettings, LocalTargets, Unwatched};

use crate::dying::{Deed, End, Snapshot, at_every_step, die, die_with, rounds};
use crate::environment::{Listing, World, append, git_settings, link, listing, set_mode, write};
use crate::home::{
    absolute, check_health, done, left_over, on_folder, on_head, program, ready, renamed, targets,
    to, told,
};

pub(crate) const FILES: [(&str, &str); 6] = [
    ("change", "1\n"),
    ("go/away", "1\n"),
    ("run", "1\n"),
    ("swap", "1\n"),
    ("keep", "1\n"),
    ("other", "1\n"),
];

/// Every kind of change, of few files.
pub(crate) fn edit(tree: &Path) {
    append(&tree.join("change"), b"2\n");
    fs::remove_dir_all(tree.join("go")).unwrap();
    set_mode(&tree.join("run"), 0o755);
    fs::remove_file(tree.join("swap")).unwrap();
    write(&tree.join("swap/inside"), b"2\n");
    link(&tree.join("link"), "change");
}

/// Work of the user's own on paths the plan does not touch.
fn work_elsewhere(world: &World, repository: &Path) {
    append(&repository.join("keep"), b"mine\n");
    append(&repository.join("other"), b"staged\n");
    world.git(repository, &["add", "other"]);
    write(&repository.join("untracked"), b"mine\n");
}

/// What the user has and what they are to have.
struct Matrix<'a> {
    world: &'a World,
    repository: PathBuf,
    intent: ApplyIntent,
    snapshot: Snapshot<'a>,
    after: Listing,
    /// What git says of the user's own work.
    own: String,
}

impl<'a> Matrix<'a> {
    fn of_a_commit(world: &'a World, prepare: impl FnOnce(&World, &Path)) -> Self {
        let repository = world.repository("user", &FILES);
        let request = on_head(world, &repository, edit);
        prepare(world, &repository);
        let intent = ready(&targets(world), &request);
        let snapshot = Snapshot::of(world, &["user", "data"]);
        let own = world.git(&repository, &["status", "--porcelain"]);
        done(&targets(world), &intent);
        assert_eq!(check_health(world, &repository), own);
        let after = listing(&repository);
        Self {
            world,
            repository,
            intent,
            snapshot,
            after,
            own,
        }
    }

    fn kill(&self, step: ApplyStep, times: usize) -> End {
        self.snapshot.put_back();
        let deed = Deed::CarryOut(Box::new(self.intent.clone()));
        die(self.world, &deed, step, times)
    }

    fn head(&self) -> String {
        self.world.git(&self.repository, &["rev-parse", "HEAD"])
    }

    /// All of it is there, and nothing else changed.
    fn check_all(&self, at: &str) {
        assert_eq!(listing(&self.repository), self.after, "{at}");
        assert_eq!(check_health(self.world, &self.repository), self.own, "{at}");
        let log = self.world.git(&self.repository, &["log", "--format=%s"]);
        assert_eq!(log, "what the plan did\na commit", "{at}");
    }
}

pub(crate) const CARRYING_OUT: &[ApplyStep] = {
    let (_, steps) = ApplyStep::ALL.split_at(6);
    steps
};

/// Killed anywhere, the next call ends it, and the one after that changes nothing.
fn dies_and_is_finished(prepare: impl FnOnce(&World, &Path)) {
    let world = World::new();
    let matrix = Matrix::of_a_commit(&world, prepare);
    let mut killed = 0;
    for _ in 0..rounds() {
        at_every_step(CARRYING_OUT, |step, times| {
            let end = matrix.kill(step, times);
            let at = format!("{} {times}", step.as_str());
            killed += usize::from(end == End::Killed);
            let applied = done(&targets(&world), &matrix.intent);
            matrix.check_all(&at);
            assert_eq!(done(&targets(&world), &matrix.intent), applied, "{at}");
            matrix.check_all(&at);
            end
        });
    }
    assert!(killed >= 20, "only {killed} were killed");
}

#[test]
fn killed_at_every_step_with_a_clean_tree() {
    dies_and_is_finished(|_, _| {});
}

#[test]
fn killed_at_every_step_with_work_elsewhere() {
    dies_and_is_finished(work_elsewhere);
}

#[test]
fn work_on_a_changed_path_stops_everything_before_it_begins() {
    let world = World::new();
    let matrix = Matrix::of_a_commit(&world, |_, _| {});
    for path in ["change", "go/away", "run", "swap", "link"] {
        matrix.snapshot.put_back();
        let mine = matrix.repository.join(path);
        write(&mine, b"mine\n");
        let head = matrix.head();
        let dirty = listing(&matrix.repository);
        let status = world.git(&matrix.repository, &["status", "--porcelain"]);
        let Ok(Carried::Stopped(stopped)) = targets(&world).carry_out(&matrix.intent) else {
            panic!("{path}");
        };
        assert_eq!(listing(&matrix.repository), dirty, "{path}");
        assert_eq!(matrix.head(), head, "{path}");
        assert_eq!(check_health(&world, &matrix.repository), status, "{path}");
        assert!(!stopped.conflicts.is_empty(), "{path}");
    }
}

/// Whoever edits a changed path between the kill and the next call keeps the edit; the apply stops
/// and says where, and goes on once the edit is gone.
#[test]
fn an_edit_between_the_kill_and_the_next_call_survives() {
    let world = World::new();
    let matrix = Matrix::of_a_commit(&world, work_elsewhere);
    let targets = targets(&world);
    for _ in 0..rounds() {
        at_every_step(CARRYING_OUT, |step, times| {
            let end = matrix.kill(step, times);
            let at = format!("{} {times}", step.as_str());
            let path = matrix.repository.join("change");
            let was = fs::read(&path).unwrap();
            append(&path, b"mine\n");
            let edited = listing(&matrix.repository);
            let is_through = matrix.head() != before_head(&matrix);
            match targets.carry_out(&matrix.intent).unwrap() {
                Carried::Done(_) => assert!(is_through, "{at}"),
                Carried::Stopped(Stopped { conflicts, .. }) => {
                    assert!(!is_through, "{at}");
                    let expected = [("change".to_owned(), ConflictReason::Changed)];
                    assert_eq!(told(&conflicts), expected, "{at}");
                }
            }
            let kept = fs::read(&path).unwrap();
            assert_eq!(kept, [&was[..], b"mine\n"].concat(), "{at}");
            // Nothing but what was left over is gone.
            let now = listing(&matrix.repository);
            assert!(
                now.iter().all(|(path, it)| edited.get(path) == Some(it)),
                "{at}"
            );
            assert_eq!(left_over(&matrix.repository), Vec::<PathBuf>::new(), "{at}");
            write(&path, &was);
            done(&targets, &matrix.intent);
            matrix.check_all(&at);
            end
        });
    }
}

fn before_head(matrix: &Matrix<'_>) -> String {
    let range = format!("{}^", commit_of(&matrix.intent));
    matrix.world.git(&matrix.repository, &["rev-parse", &range])
}

fn commit_of(intent: &ApplyIntent) -> &str {
    match &intent.effect {
        cleveragents_engine::ports::targets::Effect::Commit(effect) => &effect.new,
        other => panic!("{other:?}"),
    }
}

/// Killed while preparing, it can be prepared again or taken back, and nobody saw anything.
#[test]
fn killed_while_preparing_nothing_is_visible() {
    let world = World::new();
    let repository = world.repository("user", &FILES);
    let request = on_head(&world, &repository, edit);
    let snapshot = Snapshot::of(&world, &["user", "data"]);
    let deed = Deed::Prepare(Box::new(request.clone()));
    let mut killed = 0;
    for _ in 0..rounds() {
        at_every_step(&ApplyStep::ALL, |step, times| {
            snapshot.put_back();
            let state = world.state_of(&repository);
            let end = die(&world, &deed, step, times);
            killed += usize::from(end == End::Killed);
            let at = format!("{} {times}", step.as_str());
            assert_eq!(world.state_of(&repository), state, "{at}");
            let dirty = ["--no-optional-locks", "status", "--porcelain"];
            assert_eq!(world.git(&repository, &dirty), "", "{at}");
            let targets = targets(&world);
            if step < ApplyStep::Pinned || step == ApplyStep::IntentKept {
                targets.give_up(request.id, &request.resource).unwrap();
                assert_eq!(world.state_of(&repository), state, "{at}");
                let refs = ["for-each-ref", "refs/cleveragents/apply"];
                assert_eq!(world.git(&repository, &refs), "", "{at}");
                assert_eq!(targets.list(), Ok(Vec::new()));
                assert_eq!(fs::read_dir(world.path("data/applies")).unwrap().count(), 0);
                assert_eq!(left_over(&repository), Vec::<PathBuf>::new(), "{at}");
            }
            let Ok(Prepared::Ready(intent)) = targets.prepare(&request) else {
                panic!("{at}");
            };
            assert_eq!(targets.list(), Ok(vec![request.id]));
            done(&targets, &intent);
            assert_eq!(check_health(&world, &repository), "", "{at}");
            assert_eq!(left_over(&repository), Vec::<PathBuf>::new(), "{at}");
            end
        });
    }
    assert_eq!(killed as u32, 6 * rounds());
}

/// A folder is the same without git: killed anywhere, finished by the next call.
#[test]
fn a_folder_survives_a_kill_at_every_step() {
    let world = World::new();
    let folder = world.path("user");
    for (name, content) in FILES {
        write(&folder.join(name), content.as_bytes());
    }
    write(&folder.join("mine"), b"mine\n");
    let before = listing(&folder);
    let request = on_folder(&world, &folder, edit);
    let intent = ready(&targets(&world), &request);
    let snapshot = Snapshot::of(&world, &["user", "data"]);
    done(&targets(&world), &intent);
    let after = listing(&folder);
    assert_ne!(before, after);
    let deed = Deed::CarryOut(Box::new(intent.clone()));
    let mut killed = 0;
    for _ in 0..rounds() {
        at_every_step(CARRYING_OUT, |step, times| {
            let at = format!("{} {times}", step.as_str());
            snapshot.put_back();
            let end = die(&world, &deed, step, times);
            killed += usize::from(end == End::Killed);
            let path = folder.join("change");
            let was = fs::read(&path).unwrap();
            append(&path, b"mine\n");
            match targets(&world).carry_out(&intent).unwrap() {
                Carried::Done(_) => {
                    assert!(end == End::Survived || step == ApplyStep::DoneNoted, "{at}");
                }
                Carried::Stopped(stopped) => {
                    let expected = [("change".to_owned(), ConflictReason::Changed)];
                    assert_eq!(told(&stopped.conflicts), expected, "{at}");
                }
            }
            assert_eq!(
                fs::read(&path).unwrap(),
                [&was[..], b"mine\n"].concat(),
                "{at}"
            );
            assert_eq!(left_over(&folder), Vec::<PathBuf>::new(), "{at}");
            write(&path, &was);
            done(&targets(&world), &intent);
            assert_eq!(listing(&folder), after, "{at}");
            end
        });
    }
    assert!(killed >= 15, "only {killed} were killed");
}

/// Killed once when all was written, then the branch was moved by somebody else, and killed again at
/// every step of putting it back: in the end nothing of it stands.
#[test]
fn killed_again_while_putting_back() {
    let world = World::new();
    let matrix = Matrix::of_a_commit(&world, work_elsewhere);
    matrix.snapshot.put_back();
    let before = listing(&matrix.repository);
    let deed = Deed::CarryOut(Box::new(matrix.intent.clone()));
    assert_eq!(die(&world, &deed, ApplyStep::IndexReplaced, 1), End::Killed);
    let user = &matrix.repository;
    let tree = world.git(user, &["rev-parse", "HEAD^{tree}"]);
    let arguments = ["commit-tree", &tree, "-p", "HEAD", "-m", "other"];
    let other = world.git(user, &arguments);
    world.git(user, &["update-ref", "refs/heads/main", &other]);
    fs::remove_dir_all(world.path("snapshot")).unwrap();
    let snapshot = Snapshot::of(&world, &["user", "data"]);
    let mut killed = 0;
    at_every_step(CARRYING_OUT, |step, times| {
        snapshot.put_back();
        let end = die(&world, &deed, step, times);
        killed += usize::from(end == End::Killed);
        let at = format!("{} {times}", step.as_str());
        let Ok(Carried::Stopped(stopped)) = targets(&world).carry_out(&matrix.intent) else {
            panic!("{at}");
        };
        assert_eq!(stopped.written, [], "{at}");
        assert_eq!(listing(user), before, "{at}");
        assert_eq!(check_health(&world, user), matrix.own, "{at}");
        assert_eq!(matrix.head(), other, "{at}");
        end
    });
    assert!(killed >= 12, "only {killed} were killed");
}

/// Two working trees of one branch, each with an index of its own.
#[test]
fn a_branch_checked_out_twice_survives_a_kill_at_every_step() {
    let world = World::new();
    let repository = world.repository("user", &FILES);
    let linked = world.path("linked");
    let path = linked.to_str().unwrap();
    world.git(&repository, &["worktree", "add", "-q", "-f", path, "main"]);
    append(&linked.join("keep"), b"mine\n");
    let request = on_head(&world, &repository, |tree| {
        append(&tree.join("change"), b"2\n");
        fs::remove_dir_all(tree.join("go")).unwrap();
    });
    let intent = ready(&targets(&world), &request);
    let snapshot = Snapshot::of(&world, &["user", "linked", "data"]);
    let deed = Deed::CarryOut(Box::new(intent.clone()));
    let mut killed = 0;
    for _ in 0..rounds() {
        at_every_step(CARRYING_OUT, |step, times| {
            snapshot.put_back();
            let end = die(&world, &deed, step, times);
            killed += usize::from(end == End::Killed);
            let at = format!("{} {times}", step.as_str());
            done(&targets(&world), &intent);
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

/// The files alone, and a patch.
#[test]
fn other_destinations_survive_a_kill_at_every_step() {
    let world = World::new();
    let repository = world.repository("user", &FILES);
    let request = on_head(&world, &repository, edit);
    let file = repository.join("out.patch");
    for destination in [Destination::Worktree, Destination::Patch(absolute(&file))] {
        let request = to(renamed(&world, &request), destination);
        let intent = ready(&targets(&world), &request);
        let snapshot = Snapshot::of(&world, &["user", "data"]);
        done(&targets(&world), &intent);
        let after = listing(&repository);
        let deed = Deed::CarryOut(Box::new(intent.clone()));
        at_every_step(CARRYING_OUT, |step, times| {
            snapshot.put_back();
            let end = die(&world, &deed, step, times);
            done(&targets(&world), &intent);
            assert_eq!(listing(&repository), after, "{} {times}", step.as_str());
            assert_eq!(left_over(&repository), Vec::<PathBuf>::new());
            end
        });
        snapshot.put_back();
        fs::remove_dir_all(world.path("snapshot")).unwrap();
    }
}

/// A git that was started before the kill lives on: it may move the branch while the next call is
/// already at work. And one that is killed itself is simply run again.
#[test]
fn a_git_that_outlives_its_process_does_no_harm() {
    let world = World::new();
    let matrix = Matrix::of_a_commit(&world, work_elsewhere);
    let deed = Deed::CarryOut(Box::new(matrix.intent.clone()));
    for victim in ["$PPID", "$$"] {
        for command in [
            "update-ref --create-reflog",
            "update-index -z",
            "update-index -q",
        ] {
            for _ in 0..2 {
                matrix.snapshot.put_back();
                let text = format!(
                    "#!/bin/sh\ncase \"$*\" in *\"{command}\"*) kill -9 {victim};; esac\nexec git \"$@\"\n"
                );
                let program = program(&world, &format!("git-{}", world.id()), &text);
                let targets = targets(&world);
                if victim == "$PPID" {
                    let end = die_with(&world, &deed, &program, (ApplyStep::DoneNoted, 1));
                    assert_eq!(end, End::Killed, "{command}");
                } else {
                    let settings = GitSettings {
                        program,
                        ..git_settings(world.path("home"))
                    };
                    let watcher = Arc::new(Unwatched);
                    let hurt = LocalTargets::open(&world.path("data"), settings, watcher).unwrap();
                    // Refreshing is a courtesy, whose failure is none.
                    let failed = hurt.carry_out(&matrix.intent).is_err();
                    assert_eq!(failed, command != "update-index -q");
                }
                done(&targets, &matrix.intent);
                matrix.check_all(command);
            }
        }
    }
}

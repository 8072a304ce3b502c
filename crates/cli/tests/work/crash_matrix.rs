//! The crash matrix: an apply of one, two and three resources, killed at every step of each.
//!
//! The steps are those that the program reports, so a new step becomes part of the matrix
//! automatically. A normal run kills at each step of each resource once and rotates through the
//! states of the user's tree. The stress run continues the rotation, so that every step, each time
//! it is reached, meets every state.

use std::collections::{BTreeMap, BTreeSet};

use cleveragents_cli::bootstrap::ApplyStep;
use serde_json::Value;

use crate::kill_at_step::{WorldSnapshot, kill_at_step};
use crate::world::{TRUSTED, TestWorld, is_stress};

/// Two repositories with a plain folder between them.
const RESOURCES: [&str; 3] = ["shop", "docs", "lib"];
const FOLDER: &str = "docs";

/// The number of rotations in the stress run.
const ROUNDS: usize = 100;

/// The changes of every plan to every resource.
const WORK: &str = "echo made > made; echo more >> a; rm dir/b";

type MatrixFiles = BTreeMap<String, String>;

/// The state of the user's tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UserTreeState {
    Clean,
    /// The user edited paths that the plan does not touch.
    DirtyElsewhere,
    /// The user edited a path of the last resource that the plan changes too.
    DirtyOnChangedPath,
    /// The user edits such a path of this resource between the kill and the recovery.
    EditedBeforeRecovery(usize),
}

/// A step at which the program is killed.
#[derive(Debug, Clone, Copy)]
struct KillStep {
    /// The position among all steps, from 1.
    number: usize,
    step: ApplyStep,
    /// The resource that was being applied.
    resource: usize,
}

/// The steps of one run.
struct StepSequence(Vec<KillStep>);

impl StepSequence {
    fn new(steps: &[ApplyStep]) -> Self {
        let (mut resource, mut begun) = (0, false);
        let mut kill_steps = Vec::new();
        for (step, number) in steps.iter().zip(1..) {
            if *step == ApplyStep::Started && !begun {
                (resource, begun) = (0, true);
            }
            kill_steps.push(KillStep {
                number,
                step: *step,
                resource,
            });
            let is_end = matches!(step, ApplyStep::IntentWritten | ApplyStep::DoneRecorded);
            resource += usize::from(is_end);
        }
        Self(kill_steps)
    }

    /// Returns the first occurrence of each step of each resource.
    fn first_of_each(&self) -> Vec<KillStep> {
        let mut seen = BTreeSet::new();
        let moments = self.0.iter().copied();
        moments
            .filter(|it| seen.insert((it.resource, it.step)))
            .collect()
    }

    /// Returns whether the apply was decided at the kill: from then on it can only be finished.
    fn is_decided(&self, at: KillStep) -> bool {
        self.steps_until(at).any(|it| it.step == ApplyStep::Started)
    }

    /// Returns whether the change of a resource was final at the kill.
    fn is_committed(&self, at: KillStep, resource: usize) -> bool {
        let last = match RESOURCES[resource] {
            FOLDER => ApplyStep::DoneRecorded,
            _ => ApplyStep::BranchMoved,
        };
        self.steps_until(at)
            .any(|it| it.resource == resource && it.step == last)
    }

    fn steps_until(&self, at: KillStep) -> impl Iterator<Item = &KillStep> {
        self.0.iter().take(at.number)
    }
}

/// The visible state of the user's resources.
#[derive(Debug, Clone, PartialEq)]
struct ResourceState {
    files: Vec<MatrixFiles>,
    /// Commits, uncommitted changes, and refs that do not belong to the plan.
    repositories: Vec<(usize, String, String)>,
}

struct MatrixFixture<'a> {
    world: &'a TestWorld,
    resources: &'a [&'static str],
    plan: String,
    snapshot: WorldSnapshot<'a>,
}

impl<'a> MatrixFixture<'a> {
    fn new(world: &'a TestWorld, resources: &'a [&'static str]) -> Self {
        for name in resources {
            world.write(&format!("{name}/keep"), "1\n");
            world.write(&format!("{name}/other"), "1\n");
            match *name {
                FOLDER => world.create_folder(name),
                _ => world.create_repository(name),
            }
        }
        world.create_project("shop", resources);
        let steps = resources.iter().map(|name| {
            format!(
                "- {{tool: builtin/shell, resource: local/{name}, input: {{command: '{WORK}'}}}}\n"
            )
        });
        world.define_worker(&steps.collect::<String>());
        world.define_worker_job("");
        let plan = world.create_plan(TRUSTED);
        world.execute(&plan).succeeded();
        let names: Vec<&str> = resources.iter().copied().chain(["home"]).collect();
        Self {
            world,
            resources,
            plan,
            snapshot: WorldSnapshot::capture(world, &names),
        }
    }

    fn repositories(&self) -> impl Iterator<Item = &'static str> {
        let resources = self.resources.iter().copied();
        resources.filter(|name| *name != FOLDER)
    }

    fn resource_state(&self) -> ResourceState {
        let repository = |name: &str| {
            let folder = self.world.path(name);
            let refs = [
                "for-each-ref",
                "--format=%(refname)",
                "refs/heads",
                "refs/tags",
            ];
            assert!(!folder.join(".git/index.lock").exists(), "{name} is locked");
            (
                self.world.commits(name),
                self.world.git_status(name),
                self.world.git(&folder, &refs),
            )
        };
        ResourceState {
            files: self
                .resources
                .iter()
                .map(|it| self.world.files(it))
                .collect(),
            repositories: self.repositories().map(repository).collect(),
        }
    }

    /// Returns the expected state after the plan is applied to `before`.
    fn expected_after_apply(&self, before: &ResourceState) -> ResourceState {
        let mut after = before.clone();
        for files in &mut after.files {
            files.insert("made".to_owned(), "0 made\n".to_owned());
            files.get_mut("a").unwrap().push_str("more\n");
            files.remove("dir/b").unwrap();
        }
        for (commits, ..) in &mut after.repositories {
            *commits += 1;
        }
        after
    }

    /// Restores the initial state, then sets up the user's tree.
    fn set_up(&self, tree: UserTreeState) {
        self.snapshot.restore();
        match tree {
            UserTreeState::Clean | UserTreeState::EditedBeforeRecovery(_) => {}
            UserTreeState::DirtyElsewhere => {
                for name in self.resources {
                    self.world.write(&format!("{name}/keep"), "mine\n");
                    self.world.write(&format!("{name}/other"), "staged\n");
                    self.world.write(&format!("{name}/foreign"), "mine\n");
                }
                for name in self.repositories() {
                    self.world.git(&self.world.path(name), &["add", "other"]);
                }
            }
            UserTreeState::DirtyOnChangedPath => {
                let last = self.resources.len() - 1;
                self.edit(last);
            }
        }
    }

    fn path(&self, resource: usize) -> String {
        format!("{}/a", self.resources[resource])
    }

    /// Edits a path that the plan changes too; returns its previous content.
    fn edit(&self, resource: usize) -> String {
        let path = self.path(resource);
        let was = self.world.read(&path);
        self.world.write(&path, &format!("{was}mine\n"));
        was
    }

    fn steps(&self, tree: UserTreeState) -> StepSequence {
        self.set_up(tree);
        let end = kill_at_step(self.world, &["plan", "apply", &self.plan, "--yes"], 0);
        assert!(!end.killed);
        StepSequence::new(&end.steps)
    }

    /// Kills the program at a step and checks the recovery: all resources are changed or none, and
    /// the user's work is not touched.
    fn run_round(&self, steps: &StepSequence, at: KillStep, tree: UserTreeState) {
        let what = format!("{} of {:?}, {tree:?}", self.resources.len(), at);
        self.set_up(tree);
        let before = self.resource_state();
        let words = ["plan", "apply", &self.plan, "--yes"];
        let end = kill_at_step(self.world, &words, at.number);
        assert!(end.killed, "{what}");
        assert_eq!(end.steps.last(), Some(&at.step), "{what}");
        match (tree, steps.is_decided(at)) {
            (UserTreeState::EditedBeforeRecovery(edited), true)
                if !steps.is_committed(at, edited) =>
            {
                let places = 0..self.resources.len();
                let others = if places.into_iter().any(|it| steps.is_committed(at, it)) {
                    self.expected_after_apply(&before)
                } else {
                    before.clone()
                };
                self.assert_stopped_by_edit(edited, (&before, &others), &what);
            }
            (UserTreeState::EditedBeforeRecovery(edited), decided) => {
                self.assert_edit_kept(edited, decided, &before, &what);
            }
            (UserTreeState::DirtyOnChangedPath, decided) => {
                assert!(!decided, "{what}: it is blocked before it is decided");
                self.recover();
                assert_eq!(self.resource_state(), before, "{what}");
                self.assert_blocked(self.resources.len() - 1, &before, &what);
            }
            (_, decided) => self.assert_all_or_none(decided, at, &before, &what),
        }
    }

    fn recover(&self) {
        self.world.run(&["init"]).succeeded();
    }

    fn assert_all_or_none(&self, decided: bool, at: KillStep, before: &ResourceState, what: &str) {
        if decided && at.number.is_multiple_of(4) {
            // The recovery may be killed as well.
            kill_at_step(self.world, &["init"], 1 + at.number % 9);
        }
        self.recover();
        let state = self.world.state(&self.plan);
        if !decided {
            assert_eq!(state, "apply/errored", "{what}");
            assert_eq!(&self.resource_state(), before, "{what}");
            self.world.apply(&self.plan).succeeded();
        } else {
            assert_eq!(state, "apply/applied", "{what}");
        }
        self.assert_applied(before, what);
    }

    /// Asserts that the user's edit of a resource that was not started, or is finished, is kept.
    fn assert_edit_kept(&self, edited: usize, decided: bool, before: &ResourceState, what: &str) {
        let was = self.edit(edited);
        let path = self.path(edited);
        self.recover();
        assert_eq!(self.world.read(&path), format!("{was}mine\n"), "{what}");
        if !decided {
            let mut wanted = before.clone();
            wanted.files[edited] = self.world.files(self.resources[edited]);
            assert_eq!(self.resource_state().files, wanted.files, "{what}");
            self.assert_blocked(edited, before, what);
            return;
        }
        assert_eq!(self.world.state(&self.plan), "apply/applied", "{what}");
        self.world.write(&path, &was);
        self.assert_applied(before, what);
    }

    /// Asserts that the user's edit stops the apply and is kept, with a hint on how to finish. The
    /// other resources are finished if any of them was final, else they are unchanged.
    fn assert_stopped_by_edit(
        &self,
        edited: usize,
        (before, others): (&ResourceState, &ResourceState),
        what: &str,
    ) {
        let was = self.edit(edited);
        let path = self.path(edited);
        self.recover();
        assert_eq!(self.world.read(&path), format!("{was}mine\n"), "{what}");
        let state = self.world.state(&self.plan);
        let stopped = ["apply/errored", "apply/constrained"];
        assert!(stopped.contains(&state.as_str()), "{what}: {state}");
        for (place, name) in self.resources.iter().enumerate() {
            if place != edited {
                assert_eq!(self.world.files(name), others.files[place], "{what}");
            }
        }
        self.assert_refused(what);
        assert_eq!(self.world.read(&path), format!("{was}mine\n"), "{what}");
        self.world.write(&path, &was);
        self.world.apply(&self.plan).succeeded();
        self.assert_applied(before, what);
    }

    /// Asserts that nothing changes as long as the user's edit conflicts.
    fn assert_blocked(&self, edited: usize, before: &ResourceState, what: &str) {
        let seen = self.resource_state();
        self.assert_refused(what);
        assert_eq!(self.resource_state(), seen, "{what}");
        let path = self.path(edited);
        let now = self.world.read(&path);
        let was = now.strip_suffix("mine\n").unwrap();
        self.world.write(&path, was);
        let mut before = before.clone();
        before.files[edited] = self.world.files(self.resources[edited]);
        for (_, dirt, _) in &mut before.repositories {
            // The edit was the only uncommitted change.
            dirt.clear();
        }
        self.world.apply(&self.plan).succeeded();
        self.assert_applied(&before, what);
    }

    #[track_caller]
    fn assert_refused(&self, what: &str) {
        let run = self.world.apply(&self.plan).exits(4);
        let conflicts = run.data()["conflicts"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let named = |it: &Value| it["path"] == "a";
        assert!(conflicts.iter().any(named), "{what}: {conflicts:?}");
    }

    /// Asserts that the plan was applied exactly once and nothing else changed.
    fn assert_applied(&self, before: &ResourceState, what: &str) {
        assert_eq!(self.world.state(&self.plan), "apply/applied", "{what}");
        assert_eq!(
            self.resource_state(),
            self.expected_after_apply(before),
            "{what}"
        );
    }
}

/// Runs the matrix for `count` resources.
fn kill_at_every_step(count: usize) {
    let world = TestWorld::empty();
    let fixture = MatrixFixture::new(&world, &RESOURCES[..count]);
    let usual = fixture.steps(UserTreeState::Clean);
    let blocked = fixture.steps(UserTreeState::DirtyOnChangedPath);
    let named: BTreeSet<ApplyStep> = usual.0.iter().map(|it| it.step).collect();
    assert!(named.iter().eq(&ApplyStep::ALL), "every step is reached");
    let rounds = if is_stress() { ROUNDS } else { 1 };
    let mut kills = 0;
    for round in 0..rounds {
        let (moments, early) = if is_stress() {
            (usual.0.clone(), blocked.0.clone())
        } else {
            (usual.first_of_each(), blocked.first_of_each())
        };
        for (place, at) in moments.into_iter().enumerate() {
            let tree = match (place + round + count) % 3 {
                0 => UserTreeState::Clean,
                1 => UserTreeState::DirtyElsewhere,
                // First the resource at which the program was killed, then the others.
                _ => UserTreeState::EditedBeforeRecovery(
                    (at.resource + place / 3 + round / 3) % count,
                ),
            };
            fixture.run_round(&usual, at, tree);
            kills += 1;
        }
        for at in early {
            fixture.run_round(&blocked, at, UserTreeState::DirtyOnChangedPath);
            kills += 1;
        }
    }
    for name in fixture.repositories() {
        world.git(&world.path(name), &["fsck", "--strict"]);
    }
    assert!(kills >= 16 * rounds, "only {kills} were killed");
}

#[test]
fn one_resource_killed_at_every_step() {
    kill_at_every_step(1);
}

#[test]
fn two_resources_killed_at_every_step_of_each() {
    kill_at_every_step(2);
}

#[test]
fn three_resources_killed_at_every_step_of_each() {
    kill_at_every_step(3);
}

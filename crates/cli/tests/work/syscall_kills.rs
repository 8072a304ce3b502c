//! Apply and unapply, killed at every system call that changes something, for every destination.
//!
//! Each scenario prepares one executed (or applied) plan, which is restored for every kill. After
//! the kill the same command is repeated. Then the change must be there exactly once, the user's
//! work unchanged, nothing of ours left over, and later commands must print no warning. A normal
//! run kills at a few calls of each scenario, different ones each time; the stress run kills at all
//! of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cleveragents_cli::bootstrap::ApplyStep;

use crate::kill_at_step::{WorldSnapshot, kill_at_step};
use crate::kill_points::{CHANGING_CALLS, can_trace, kill_at};
use crate::world::{AgentsRun, TRUSTED, TestWorld, is_stress};

const REPOSITORY: &str = "shop";
const FOLDER: &str = "docs";
const PATCH: &str = "out/plan.patch";

/// The plan's changes to each resource: new files, a changed one, a removed one and a link.
const WORK: &str = "echo made > made; echo more >> a; rm dir/b; ln -s a link; mkdir -p new/deep; echo x > new/deep/f";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScenarioDirection {
    Apply,
    Unapply,
}

/// One command to kill.
#[derive(Debug, Clone, Copy)]
struct KillScenario {
    resources: &'static [&'static str],
    /// The value of `--to`.
    to: &'static str,
    direction: ScenarioDirection,
}

/// The visible state of the user's resources.
#[derive(Debug, Clone, PartialEq)]
struct ScenarioState {
    files: Vec<BTreeMap<String, String>>,
    patch: Option<String>,
    /// For each repository: commits and tree of each branch, and uncommitted changes.
    repositories: Vec<(String, String)>,
}

struct ScenarioFixture<'a> {
    world: &'a TestWorld,
    scenario: KillScenario,
    plan: String,
    snapshot: WorldSnapshot<'a>,
}

impl<'a> ScenarioFixture<'a> {
    fn new(world: &'a TestWorld, scenario: KillScenario) -> Self {
        for name in scenario.resources {
            world.write(&format!("{name}/mine"), "1\n");
            if *name == FOLDER {
                world.create_folder(name);
            } else {
                world.create_repository(name);
            }
        }
        world.write("out/other", "mine\n");
        world.create_project("shop", scenario.resources);
        let steps = scenario.resources.iter().map(|name| {
            format!(
                "- {{tool: builtin/shell, resource: local/{name}, input: {{command: '{WORK}'}}}}\n"
            )
        });
        world.define_worker(&steps.collect::<String>());
        world.define_worker_job("");
        let plan = world.create_plan(TRUSTED);
        world.execute(&plan).succeeded();
        // Edits of the user on other paths.
        for name in scenario.resources {
            world.write(&format!("{name}/mine"), "changed\n");
            world.write(&format!("{name}/untracked"), "mine\n");
        }
        let names = scenario.resources.iter().copied().chain(["home", "out"]);
        let names: Vec<&str> = names.collect();
        let stage = |snapshot| Self {
            world,
            scenario,
            plan: plan.clone(),
            snapshot,
        };
        if scenario.direction == ScenarioDirection::Unapply {
            let applying = stage(WorldSnapshot::capture(world, &[]));
            applying.run_command(ScenarioDirection::Apply).succeeded();
        }
        stage(WorldSnapshot::capture(world, &names))
    }

    fn command_words(&self, direction: ScenarioDirection) -> Vec<String> {
        let mut words = vec!["plan".to_owned()];
        match direction {
            ScenarioDirection::Unapply => words.push("unapply".to_owned()),
            ScenarioDirection::Apply => words.push("apply".to_owned()),
        }
        words.extend([self.plan.clone(), "--yes".to_owned()]);
        if direction == ScenarioDirection::Apply {
            words.push("--to".to_owned());
            match self.scenario.to {
                "branch" => words.extend(["branch".to_owned(), "topic".to_owned()]),
                "patch" => {
                    words.push("patch".to_owned());
                    words.push(self.world.path(PATCH).display().to_string());
                }
                other => words.push(other.to_owned()),
            }
        }
        words
    }

    fn run_command(&self, direction: ScenarioDirection) -> AgentsRun {
        self.world.run(&self.command_words(direction))
    }

    fn resource_state(&self) -> ScenarioState {
        let repositories = self.scenario.resources.iter().filter(|it| **it != FOLDER);
        let repository = |name: &&str| {
            let folder = self.world.path(name);
            let mut branches = String::new();
            let refs = ["for-each-ref", "--format=%(refname)", "refs/heads"];
            for branch in self.world.git(&folder, &refs).lines() {
                let count = self
                    .world
                    .git(&folder, &["rev-list", "--count", "--no-merges", branch]);
                let tree = self
                    .world
                    .git(&folder, &["rev-parse", &format!("{branch}^{{tree}}")]);
                branches.push_str(&format!("{branch} {} {tree}", count.trim()));
            }
            (branches, self.world.git_status(name))
        };
        ScenarioState {
            files: self
                .scenario
                .resources
                .iter()
                .map(|it| self.world.files(it))
                .collect(),
            patch: std::fs::read_to_string(self.world.path(PATCH)).ok(),
            repositories: repositories.map(repository).collect(),
        }
    }

    /// Kills the command at one stop, repeats it, and checks the result.
    fn run_round(&self, calls: &str, stop: usize, wanted: &ScenarioState) {
        self.snapshot.restore();
        let words = self.command_words(self.scenario.direction);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let traced = kill_at(self.world, &words, calls, stop);
        let what = format!(
            "{:?}, stop {stop} of {calls}, killed: {}, after\n{}",
            self.scenario, traced.is_killed, traced.last_calls
        );
        let again = self.run_command(self.scenario.direction);
        assert_eq!(again.code, Some(0), "{what}\n{again:?}");
        self.assert_done_once(wanted, &what);
    }

    fn assert_done_once(&self, wanted: &ScenarioState, what: &str) {
        assert_eq!(&self.resource_state(), wanted, "{what}");
        let events = self.world.events(&self.plan);
        let count = |kind: &str| events.iter().filter(|it| it["kind"] == kind).count();
        let (applied, unapplied) = (count("plan_applied"), count("plan_unapplied"));
        let expected = match self.scenario.direction {
            ScenarioDirection::Apply => (1, 0),
            ScenarioDirection::Unapply => (1, 1),
        };
        assert_eq!((applied, unapplied), expected, "{what}");
        // Later commands have nothing left to do or to warn about.
        let quiet = self.world.run(&["plan", "list"]);
        assert!(!quiet.stderr.contains("WARN"), "{what}\n{quiet:?}");
        assert_eq!(self.world.events(&self.plan).len(), events.len(), "{what}");
        assert_eq!(self.leftover_files(), Vec::<PathBuf>::new(), "{what}");
        for name in self.scenario.resources.iter().filter(|it| **it != FOLDER) {
            let folder = self.world.path(name);
            let fsck = self.world.try_git(&folder, &["fsck", "--strict"]);
            assert_eq!(fsck.code, Some(0), "{what}\n{fsck:?}");
        }
    }

    /// Returns files that may exist only while a command runs: ours beside the user's, git's locks,
    /// incomplete packs.
    fn leftover_files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for name in self.scenario.resources.iter().chain(&["out"]) {
            collect_files(&self.world.path(name), &mut found);
        }
        found.retain(|path| is_leftover(path));
        found
    }
}

fn is_leftover(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_part_of_pack = name.starts_with("pack-") && !path.with_extension("idx").exists();
    name.starts_with(".agents-")
        || name.ends_with(".lock")
        || name.ends_with(".keep")
        || name.starts_with("tmp_")
        || is_part_of_pack
}

fn collect_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.symlink_metadata().unwrap().is_dir() {
            collect_files(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// Kills one scenario at every call, or in a normal run at about `sample` of them.
fn kill_at_every_call(scenario: KillScenario, calls: &str, sample: usize) {
    let world = TestWorld::empty();
    if let Err(reason) = can_trace(&world) {
        // Without a tracer no signal can be injected; the crash matrix still runs.
        let written = std::io::Write::write_all(
            &mut std::io::stderr(),
            format!("not killed at every call: {reason}\n").as_bytes(),
        );
        return written.unwrap();
    }
    let fixture = ScenarioFixture::new(&world, scenario);
    let words = fixture.command_words(scenario.direction);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let whole = kill_at(&world, &words, calls, 0);
    assert!(!whole.is_killed && whole.stops > 0, "{whole:?}");
    let wanted = fixture.resource_state();
    fixture.assert_done_once(&wanted, "not killed at all");
    let (first, step) = if is_stress() {
        (1, 1)
    } else {
        let step = whole.stops.div_ceil(sample).max(1);
        (1 + std::process::id() as usize % step, step)
    };
    for stop in (first..=whole.stops).step_by(step) {
        fixture.run_round(calls, stop, &wanted);
    }
}

fn kill_apply_and_unapply(resources: &'static [&'static str], to: &'static str) {
    for direction in [ScenarioDirection::Apply, ScenarioDirection::Unapply] {
        let scenario = KillScenario {
            resources,
            to,
            direction,
        };
        kill_at_every_call(scenario, CHANGING_CALLS, 6);
    }
}

#[test]
fn a_commit_killed_at_every_call() {
    kill_apply_and_unapply(&[REPOSITORY], "current");
}

#[test]
fn a_branch_killed_at_every_call() {
    kill_apply_and_unapply(&[REPOSITORY], "branch");
}

#[test]
fn a_working_tree_killed_at_every_call() {
    kill_apply_and_unapply(&[REPOSITORY], "worktree");
}

#[test]
fn a_patch_killed_at_every_call() {
    kill_apply_and_unapply(&[REPOSITORY], "patch");
}

#[test]
fn a_folder_killed_at_every_call() {
    kill_apply_and_unapply(&[FOLDER], "current");
}

#[test]
fn a_patch_of_a_folder_killed_at_every_call() {
    kill_apply_and_unapply(&[FOLDER], "patch");
}

#[test]
fn two_resources_killed_at_every_call() {
    kill_apply_and_unapply(&[REPOSITORY, FOLDER], "current");
}

/// An apply to a worktree that was killed during its cleanup once could not be finished.
#[test]
fn a_working_tree_killed_at_every_removal() {
    let scenario = KillScenario {
        resources: &[REPOSITORY],
        to: "worktree",
        direction: ScenarioDirection::Apply,
    };
    kill_at_every_call(scenario, "unlink,unlinkat,rmdir", 24);
}

/// A repository that disappears after the decision stops the plan once, with a reason and a hint.
/// No later command retries by itself.
#[test]
fn a_missing_repository_stops_the_plan_once() {
    let scenario = KillScenario {
        resources: &[REPOSITORY],
        to: "current",
        direction: ScenarioDirection::Apply,
    };
    let world = TestWorld::empty();
    let fixture = ScenarioFixture::new(&world, scenario);
    let words = ["plan", "apply", &fixture.plan, "--yes"];
    let steps = kill_at_step(&world, &words, 0).steps;
    let begun = steps
        .iter()
        .position(|it| *it == ApplyStep::Started)
        .unwrap();
    fixture.snapshot.restore();
    assert!(kill_at_step(&world, &words, begun + 1).killed);
    let (there, away) = (world.path(REPOSITORY), world.path("away"));
    std::fs::rename(&there, &away).unwrap();
    let next = ["action", "create", "--config", "job.yaml", "--update"];
    let reported = world.run(&next).succeeded();
    assert!(
        reported.stderr.contains("cannot be finished"),
        "{reported:?}"
    );
    assert_eq!(world.state(&fixture.plan), "apply/errored");
    let errors = world.errors(&fixture.plan);
    assert!(errors[0].contains("no longer exists"), "{errors:?}");
    let events = world.events(&fixture.plan).len();
    for _ in 0..2 {
        let quiet = world.run(&next).succeeded();
        let stderr = quiet.stderr.to_lowercase();
        assert!(!stderr.contains("warn"), "{quiet:?}");
        assert_eq!(world.events(&fixture.plan).len(), events);
    }
    std::fs::rename(&away, &there).unwrap();
    world
        .apply(&fixture.plan)
        .succeeded()
        .reports_state("apply/applied");
    assert_eq!(world.commits(REPOSITORY), 2);
}

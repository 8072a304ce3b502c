//! Apply and unapply, killed at every system call that changes something, for every destination.
//!
//! One executed (or applied) plan is prepared once for each scenario and put back for every kill.
//! After the kill the same command is given again: the change is there exactly once, nothing of the
//! user's is lost, nothing of ours is left over, and no further command has anything to say about
//! it. An everyday run kills at a few calls of each scenario, other ones each time; the stress run
//! kills at all of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cleveragents_cli::wiring::ApplyStep;

use crate::dying::{Snapshot, die};
use crate::kill_points::{CHANGING_CALLS, can_trace, kill_at};
use crate::world::{ALONE, Run, World, is_stress};

const REPOSITORY: &str = "shop";
const FOLDER: &str = "docs";
const PATCH: &str = "out/plan.patch";

/// What the plan does to each resource: a new file, a changed one, a removed one, a link, a mode.
const WORK: &str = "echo made > made; echo more >> a; rm dir/b; ln -s a link; mkdir -p new/deep; echo x > new/deep/f";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Apply,
    Unapply,
}

/// One command to kill.
#[derive(Debug, Clone, Copy)]
struct Scenario {
    resources: &'static [&'static str],
    /// What stands after `--to`.
    to: &'static str,
    direction: Direction,
}

/// All that can be seen of the user's resources.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    files: Vec<BTreeMap<String, String>>,
    patch: Option<String>,
    /// Of each repository: commits and tree of each branch, what is not committed.
    repositories: Vec<(String, String)>,
}

struct Stage<'a> {
    world: &'a World,
    scenario: Scenario,
    plan: String,
    snapshot: Snapshot<'a>,
}

impl<'a> Stage<'a> {
    fn new(world: &'a World, scenario: Scenario) -> Self {
        for name in scenario.resources {
            world.write(&format!("{name}/mine"), "1\n");
            if *name == FOLDER {
                world.folder(name);
            } else {
                world.repository(name);
            }
        }
        world.write("out/other", "mine\n");
        world.project("shop", scenario.resources);
        let steps = scenario.resources.iter().map(|name| {
            format!(
                "- {{tool: builtin/shell, resource: local/{name}, input: {{command: '{WORK}'}}}}\n"
            )
        });
        world.worker(&steps.collect::<String>());
        world.job("");
        let plan = world.plan(ALONE);
        world.execute(&plan).succeeded();
        // Work of the user's own, on other paths.
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
        if scenario.direction == Direction::Unapply {
            let applying = stage(Snapshot::of(world, &[]));
            applying.command(Direction::Apply).succeeded();
        }
        stage(Snapshot::of(world, &names))
    }

    fn words(&self, direction: Direction) -> Vec<String> {
        let mut words = vec!["plan".to_owned()];
        match direction {
            Direction::Unapply => words.push("unapply".to_owned()),
            Direction::Apply => words.push("apply".to_owned()),
        }
        words.extend([self.plan.clone(), "--yes".to_owned()]);
        if direction == Direction::Apply {
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

    fn command(&self, direction: Direction) -> Run {
        self.world.run(&self.words(direction))
    }

    fn see(&self) -> Seen {
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
            (branches, self.world.dirt(name))
        };
        Seen {
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

    /// Kills the command at one stop and gives it again; returns how often it stopped.
    fn round(&self, calls: &str, stop: usize, wanted: &Seen) {
        self.snapshot.put_back();
        let words = self.words(self.scenario.direction);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let traced = kill_at(self.world, &words, calls, stop);
        let what = format!(
            "{:?}, stop {stop} of {calls}, killed: {}, after\n{}",
            self.scenario, traced.is_killed, traced.last_calls
        );
        let again = self.command(self.scenario.direction);
        assert_eq!(again.code, Some(0), "{what}\n{again:?}");
        self.is_done_once(wanted, &what);
    }

    fn is_done_once(&self, wanted: &Seen, what: &str) {
        assert_eq!(&self.see(), wanted, "{what}");
        let events = self.world.events(&self.plan);
        let count = |kind: &str| events.iter().filter(|it| it["kind"] == kind).count();
        let (applied, unapplied) = (count("plan_applied"), count("plan_unapplied"));
        let expected = match self.scenario.direction {
            Direction::Apply => (1, 0),
            Direction::Unapply => (1, 1),
        };
        assert_eq!((applied, unapplied), expected, "{what}");
        // Nothing is left to be done or said, whatever is asked next.
        let quiet = self.world.run(&["plan", "list"]);
        assert!(!quiet.stderr.contains("WARN"), "{what}\n{quiet:?}");
        assert_eq!(self.world.events(&self.plan).len(), events.len(), "{what}");
        assert_eq!(self.left_over(), Vec::<PathBuf>::new(), "{what}");
        for name in self.scenario.resources.iter().filter(|it| **it != FOLDER) {
            let folder = self.world.path(name);
            let fsck = self.world.try_git(&folder, &["fsck", "--strict"]);
            assert_eq!(fsck.code, Some(0), "{what}\n{fsck:?}");
        }
    }

    /// Files that only a command at work may have: ours beside the user's, locks of git, packs
    /// that are not whole.
    fn left_over(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for name in self.scenario.resources.iter().chain(&["out"]) {
            walk(&self.world.path(name), &mut found);
        }
        found.retain(|path| is_left_over(path));
        found
    }
}

fn is_left_over(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_part_of_pack = name.starts_with("pack-") && !path.with_extension("idx").exists();
    name.starts_with(".agents-")
        || name.ends_with(".lock")
        || name.ends_with(".keep")
        || name.starts_with("tmp_")
        || is_part_of_pack
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.symlink_metadata().unwrap().is_dir() {
            walk(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// Kills one scenario at every call, or in an everyday run at about `sample` of them.
fn killed_at_every_call(scenario: Scenario, calls: &str, sample: usize) {
    let world = World::empty();
    if let Err(reason) = can_trace(&world) {
        // Without a tracer there is nothing to inject with; the crash matrix still runs.
        let told = std::io::Write::write_all(
            &mut std::io::stderr(),
            format!("not killed at every call: {reason}\n").as_bytes(),
        );
        return told.unwrap();
    }
    let stage = Stage::new(&world, scenario);
    let words = stage.words(scenario.direction);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let whole = kill_at(&world, &words, calls, 0);
    assert!(!whole.is_killed && whole.stops > 0, "{whole:?}");
    let wanted = stage.see();
    stage.is_done_once(&wanted, "not killed at all");
    let (first, step) = match is_stress() {
        true => (1, 1),
        false => {
            let step = whole.stops.div_ceil(sample).max(1);
            (1 + std::process::id() as usize % step, step)
        }
    };
    for stop in (first..=whole.stops).step_by(step) {
        stage.round(calls, stop, &wanted);
    }
}

fn both_ways(resources: &'static [&'static str], to: &'static str) {
    for direction in [Direction::Apply, Direction::Unapply] {
        let scenario = Scenario {
            resources,
            to,
            direction,
        };
        killed_at_every_call(scenario, CHANGING_CALLS, 6);
    }
}

#[test]
fn a_commit_killed_at_every_call() {
    both_ways(&[REPOSITORY], "current");
}

#[test]
fn a_branch_killed_at_every_call() {
    both_ways(&[REPOSITORY], "branch");
}

#[test]
fn a_working_tree_killed_at_every_call() {
    both_ways(&[REPOSITORY], "worktree");
}

#[test]
fn a_patch_killed_at_every_call() {
    both_ways(&[REPOSITORY], "patch");
}

#[test]
fn a_folder_killed_at_every_call() {
    both_ways(&[FOLDER], "current");
}

#[test]
fn a_patch_of_a_folder_killed_at_every_call() {
    both_ways(&[FOLDER], "patch");
}

#[test]
fn two_resources_killed_at_every_call() {
    both_ways(&[REPOSITORY, FOLDER], "current");
}

/// The removal of what is no longer needed is where an apply of files once could not be finished.
#[test]
fn a_working_tree_killed_at_every_removal() {
    let scenario = Scenario {
        resources: &[REPOSITORY],
        to: "worktree",
        direction: Direction::Apply,
    };
    killed_at_every_call(scenario, "unlink,unlinkat,rmdir", 24);
}

/// A repository that is gone after the decision stops the plan once, with the reason and what to do;
/// no later command tries again by itself.
#[test]
fn a_repository_that_is_gone_stops_the_plan_once() {
    let scenario = Scenario {
        resources: &[REPOSITORY],
        to: "current",
        direction: Direction::Apply,
    };
    let world = World::empty();
    let stage = Stage::new(&world, scenario);
    let words = ["plan", "apply", &stage.plan, "--yes"];
    let steps = die(&world, &words, 0).steps;
    let begun = steps.iter().position(|it| *it == ApplyStep::Begun).unwrap();
    stage.snapshot.put_back();
    assert!(die(&world, &words, begun + 1).killed);
    let (there, away) = (world.path(REPOSITORY), world.path("away"));
    std::fs::rename(&there, &away).unwrap();
    let next = ["action", "create", "--config", "job.yaml", "--update"];
    let told = world.run(&next).succeeded();
    assert!(told.stderr.contains("cannot be finished"), "{told:?}");
    assert_eq!(world.state(&stage.plan), "apply/errored");
    let errors = world.errors(&stage.plan);
    assert!(errors[0].contains("not there any more"), "{errors:?}");
    let events = world.events(&stage.plan).len();
    for _ in 0..2 {
        let quiet = world.run(&next).succeeded();
        assert!(!quiet.stderr.contains("WARN"), "{quiet:?}");
        assert_eq!(world.events(&stage.plan).len(), events);
    }
    std::fs::rename(&away, &there).unwrap();
    world.apply(&stage.plan).succeeded().stands("apply/applied");
    assert_eq!(world.commits(REPOSITORY), 2);
}

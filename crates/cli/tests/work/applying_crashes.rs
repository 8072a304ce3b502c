//! Apply killed at moments nobody chose: any later command finishes it or takes it back.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::following::{Dice, Follower, let_pass};
use crate::world::{ALONE, World, trials};

const RESOURCES: [&str; 3] = ["shop", "docs", "lib"];

type Files = BTreeMap<String, String>;

struct Stage {
    world: World,
    resources: Vec<&'static str>,
}

impl Stage {
    /// Repositories with a folder between them.
    fn new(count: usize) -> Self {
        let world = World::empty();
        let resources = RESOURCES[..count].to_vec();
        for name in &resources {
            match *name {
                "docs" => world.folder(name),
                _ => world.repository(name),
            }
        }
        world.project("shop", &resources);
        let stage = Self { world, resources };
        let steps = stage.resources.iter().map(|name| {
            format!(
                "- {{tool: builtin/shell, resource: local/{name}, input: \
                 {{command: 'echo {{{{ args.text }}}} > made; echo {{{{ args.text }}}} >> a; \
                 rm -f dir/b; for n in 1 2 3 4 5 6 7 8; do echo {{{{ args.text }}}} > f$n; done'}}}}\n"
            )
        });
        stage.world.worker(&steps.collect::<String>());
        stage
            .world
            .job("arguments: [{name: text, type: string, required: true}]\n");
        stage
    }

    fn files(&self) -> Vec<Files> {
        let files = |name: &&str| {
            let mut files = self.world.files(name);
            files.retain(|path, _| path != "foreign");
            files
        };
        self.resources.iter().map(files).collect()
    }

    /// What of the user's is not the plan's.
    fn foreign(&self) -> Vec<String> {
        let foreign = |name: &&str| self.world.read(&format!("{name}/foreign"));
        self.resources.iter().map(foreign).collect()
    }

    fn commits(&self) -> Vec<usize> {
        let repositories = self.resources.iter().filter(|name| **name != "docs");
        repositories.map(|name| self.world.commits(name)).collect()
    }

    /// Kills an apply after a while, lets another command come, and looks at what is there.
    fn round(&self, round: usize, moment: Moment) -> End {
        let plan = self.executed(round);
        for name in &self.resources {
            self.world
                .write(&format!("{name}/foreign"), &format!("mine {round}\n"));
        }
        let (before, commits) = (self.files(), self.commits());
        let foreign = self.foreign();
        let mut follower = Follower::of(&self.world, &plan);
        let mut child = self.world.start(&["plan", "apply", &plan, "--yes"]);
        match moment {
            Moment::After(delay) => let_pass(delay),
            Moment::Told(kind) => drop(follower.wait_for(kind)),
        }
        child.kill().unwrap();
        child.wait().unwrap();
        self.world.run(&["init"]).succeeded();
        let state = self.world.state(&plan);
        let after = self.files();
        let what = format!("round {round}, {} resources: {state}", self.resources.len());
        assert_eq!(self.foreign(), foreign, "{what}");
        let end = match state.as_str() {
            "apply/applied" => End::Applied,
            _ => End::NotApplied,
        };
        if end == End::NotApplied {
            assert_eq!(after, before, "{what}: none is changed");
            assert_eq!(self.commits(), commits, "{what}");
            self.world.apply(&plan).succeeded().stands("apply/applied");
        }
        self.is_applied(round, &commits);
        end
    }

    /// Kills an unapply after a while: every resource is as before the plan, or none is.
    fn round_back(&self, round: usize, delay: Duration) {
        let before = self.files();
        let plan = self.executed(round);
        self.world.apply(&plan).succeeded();
        let applied = self.files();
        let mut child = self.world.start(&["plan", "unapply", &plan, "--yes"]);
        let_pass(delay);
        child.kill().unwrap();
        child.wait().unwrap();
        self.world.run(&["init"]).succeeded();
        let found = self.files();
        assert!(
            found == before || found == applied,
            "round {round}: {found:?}"
        );
        self.world
            .ask(&["plan", "unapply", &plan, "--yes"])
            .succeeded();
        assert_eq!(self.files(), before, "round {round}");
        assert_eq!(
            self.world.told(&plan, "plan_unapplied").len(),
            1,
            "round {round}"
        );
        for name in self.resources.iter().filter(|name| **name != "docs") {
            assert_eq!(self.world.dirt(name), "", "round {round}");
        }
    }

    fn executed(&self, round: usize) -> String {
        let text = format!("text=round{round}");
        let plan = self.world.plan_of("shop", ALONE, &["--arg", &text]);
        self.world.execute(&plan).succeeded();
        plan
    }

    /// Every resource is changed, once.
    fn is_applied(&self, round: usize, commits: &[usize]) {
        let content = format!("0 round{round}\n");
        for files in self.files() {
            assert_eq!(files["made"], content, "round {round}");
            assert_eq!(files["f8"], content, "round {round}");
            assert!(
                files["a"].ends_with(&format!("\nround{round}\n")),
                "round {round}"
            );
            let line = format!("round{round}\n");
            assert_eq!(files["a"].matches(&line).count(), 1, "round {round}");
            assert!(!files.contains_key("dir/b"), "round {round}");
        }
        let more: Vec<usize> = commits.iter().map(|it| it + 1).collect();
        assert_eq!(self.commits(), more, "round {round}: one commit");
        for name in self.resources.iter().filter(|name| **name != "docs") {
            assert_eq!(self.world.dirt(name), "?? foreign\n", "round {round}");
        }
    }
}

/// When an apply is killed.
#[derive(Clone, Copy)]
enum Moment {
    After(Duration),
    /// As soon as its journal says so.
    Told(&'static str),
}

#[derive(Debug, PartialEq, Eq)]
enum End {
    Applied,
    NotApplied,
}

/// Kills are spread over as long as an apply takes here.
fn killed_at_random(resources: usize, rounds: usize) {
    let stage = Stage::new(resources);
    let plan = stage.world.plan_of("shop", ALONE, &["--arg", "text=first"]);
    stage.world.execute(&plan).succeeded();
    let began = Instant::now();
    stage.world.apply(&plan).succeeded();
    let usual = u64::try_from(began.elapsed().as_millis()).unwrap();
    let mut dice = Dice::new(resources as u64);
    let mut applied = 0;
    for round in 0..rounds {
        let delay = Duration::from_millis(dice.below(usual * 5 / 4));
        applied += usize::from(stage.round(round, Moment::After(delay)) == End::Applied);
    }
    assert!(applied < rounds, "some die before anything is decided");
    for name in stage.resources.iter().filter(|name| **name != "docs") {
        let folder = stage.world.path(name);
        stage.world.git(&folder, &["fsck", "--strict"]);
    }
}

#[test]
fn what_was_decided_is_finished_by_the_next_command() {
    for resources in 1..=3 {
        let stage = Stage::new(resources);
        for round in 0..trials(2) {
            let early = ["apply_requested", "apply_intended"];
            stage.round(3 * round, Moment::Told(early[round % 2]));
            let end = stage.round(3 * round + 1, Moment::Told("apply_decided"));
            assert_eq!(end, End::Applied, "only forward from there");
        }
    }
}

#[test]
fn what_the_user_commits_before_recovery_is_kept() {
    let stage = Stage::new(1);
    let world = &stage.world;
    for round in 0..trials(5) {
        let plan = stage.executed(round);
        let mut follower = Follower::of(world, &plan);
        let mut child = world.start(&["plan", "apply", &plan, "--yes"]);
        follower.wait_for("apply_decided");
        child.kill().unwrap();
        child.wait().unwrap();
        let (other, content) = (format!("other{round}"), format!("mine {round}\n"));
        world.write(&format!("shop/{other}"), &content);
        let shop = world.path("shop");
        let commit = ["commit", "-q", "-m", "mine", "--", &other];
        let committed = world.try_git(&shop, &["add", &other]).code == Some(0)
            && world.try_git(&shop, &commit).code == Some(0);
        world.run(&["init"]).succeeded();
        if !committed {
            // A lock of the git that died keeps the user out until the next command.
            world.apply(&plan).succeeded().stands("apply/applied");
            world.git(&shop, &["add", &other]);
            world.git(&shop, &commit);
        }
        assert_eq!(world.read(&format!("shop/{other}")), content);
        assert_eq!(
            world.git(&shop, &["show", &format!("HEAD:{other}")]),
            content
        );
        let run = world.apply(&plan);
        if run.code != Some(0) {
            // Its files were there already, so it cannot be merged: it is said what moved.
            let run = run.exits(4).says("moved from");
            assert!(run.data()["conflicts"].is_array());
            return;
        }
        run.stands("apply/applied");
        let subjects = world.git(&shop, &["log", "-2", "--format=%s"]);
        let mut both: Vec<&str> = subjects.lines().collect();
        both.sort_unstable();
        assert_eq!(both, ["Do the job", "mine"], "round {round}");
        assert_eq!(world.dirt("shop"), "", "round {round}");
        assert_eq!(world.read("shop/made"), format!("round{round}\n"));
    }
}

#[test]
fn what_is_taken_back_is_taken_back_of_all_or_of_none() {
    let stage = Stage::new(2);
    let mut dice = Dice::new(4);
    for round in 0..trials(8) {
        stage.round_back(round, Duration::from_millis(dice.below(1500)));
    }
}

#[test]
fn one_resource_is_changed_or_not() {
    killed_at_random(1, trials(12));
}

#[test]
fn two_resources_are_changed_or_none() {
    killed_at_random(2, trials(10));
}

#[test]
fn three_resources_are_changed_or_none() {
    killed_at_random(3, trials(8));
}

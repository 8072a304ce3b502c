//! Applies killed at random moments: any later command finishes or aborts them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::event_follower::{Follower, TestRng, sleep_for};
use crate::world::{TRUSTED, TestWorld, trials};

const RESOURCES: [&str; 3] = ["shop", "docs", "lib"];

type AppliedFiles = BTreeMap<String, String>;

struct CrashFixture {
    world: TestWorld,
    resources: Vec<&'static str>,
}

impl CrashFixture {
    /// Repositories with a plain folder between them.
    fn new(count: usize) -> Self {
        let world = TestWorld::empty();
        let resources = RESOURCES[..count].to_vec();
        for name in &resources {
            match *name {
                "docs" => world.create_folder(name),
                _ => world.create_repository(name),
            }
        }
        world.create_project("shop", &resources);
        let fixture = Self { world, resources };
        let steps = fixture.resources.iter().map(|name| {
            format!(
                "- {{tool: builtin/shell, resource: local/{name}, input: \
                 {{command: 'echo {{{{ args.text }}}} > made; echo {{{{ args.text }}}} >> a; \
                 rm -f dir/b; for n in 1 2 3 4 5 6 7 8; do echo {{{{ args.text }}}} > f$n; done'}}}}\n"
            )
        });
        fixture.world.define_worker(&steps.collect::<String>());
        fixture
            .world
            .define_worker_job("arguments: [{name: text, type: string, required: true}]\n");
        fixture
    }

    fn files(&self) -> Vec<AppliedFiles> {
        let files = |name: &&str| {
            let mut files = self.world.files(name);
            files.retain(|path, _| path != "foreign");
            files
        };
        self.resources.iter().map(files).collect()
    }

    /// Returns the user's content that does not belong to the plan.
    fn foreign_contents(&self) -> Vec<String> {
        let foreign = |name: &&str| self.world.read(&format!("{name}/foreign"));
        self.resources.iter().map(foreign).collect()
    }

    fn commits(&self) -> Vec<usize> {
        let repositories = self.resources.iter().filter(|name| **name != "docs");
        repositories.map(|name| self.world.commits(name)).collect()
    }

    /// Kills an apply at `moment`, runs another command, and checks the result.
    fn run_apply_round(&self, round: usize, moment: KillTime) -> RecoveryOutcome {
        let plan = self.create_executed_plan(round);
        for name in &self.resources {
            self.world
                .write(&format!("{name}/foreign"), &format!("mine {round}\n"));
        }
        let (before, commits) = (self.files(), self.commits());
        let foreign = self.foreign_contents();
        let mut follower = Follower::start(&self.world, &plan);
        let mut child = self.world.start(&["plan", "apply", &plan, "--yes"]);
        match moment {
            KillTime::After(delay) => sleep_for(delay),
            KillTime::OnEvent(kind) => drop(follower.wait_for(kind)),
        }
        child.kill().unwrap();
        child.wait().unwrap();
        self.world.run(&["init"]).succeeded();
        let state = self.world.state(&plan);
        let after = self.files();
        let what = format!("round {round}, {} resources: {state}", self.resources.len());
        assert_eq!(self.foreign_contents(), foreign, "{what}");
        let end = match state.as_str() {
            "apply/applied" => RecoveryOutcome::Applied,
            _ => RecoveryOutcome::NotApplied,
        };
        if end == RecoveryOutcome::NotApplied {
            assert_eq!(after, before, "{what}: none is changed");
            assert_eq!(self.commits(), commits, "{what}");
            self.world
                .apply(&plan)
                .succeeded()
                .reports_state("apply/applied");
        }
        self.assert_applied(round, &commits);
        end
    }

    /// Kills an unapply after a delay: either every resource is as before the plan, or none is.
    fn run_unapply_round(&self, round: usize, delay: Duration) {
        let before = self.files();
        let plan = self.create_executed_plan(round);
        self.world.apply(&plan).succeeded();
        let applied = self.files();
        let mut child = self.world.start(&["plan", "unapply", &plan, "--yes"]);
        sleep_for(delay);
        child.kill().unwrap();
        child.wait().unwrap();
        self.world.run(&["init"]).succeeded();
        let found = self.files();
        assert!(
            found == before || found == applied,
            "round {round}: {found:?}"
        );
        self.world
            .run_json(&["plan", "unapply", &plan, "--yes"])
            .succeeded();
        assert_eq!(self.files(), before, "round {round}");
        assert_eq!(
            self.world.events_of_kind(&plan, "plan_unapplied").len(),
            1,
            "round {round}"
        );
        for name in self.resources.iter().filter(|name| **name != "docs") {
            assert_eq!(self.world.git_status(name), "", "round {round}");
        }
    }

    fn create_executed_plan(&self, round: usize) -> String {
        let text = format!("text=round{round}");
        let plan = self
            .world
            .create_plan_for("shop", TRUSTED, &["--arg", &text]);
        self.world.execute(&plan).succeeded();
        plan
    }

    /// Asserts that every resource is changed exactly once.
    fn assert_applied(&self, round: usize, commits: &[usize]) {
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
            assert_eq!(self.world.git_status(name), "?? foreign\n", "round {round}");
        }
    }
}

#[derive(Clone, Copy)]
enum KillTime {
    After(Duration),
    /// As soon as the journal has this event.
    OnEvent(&'static str),
}

#[derive(Debug, PartialEq, Eq)]
enum RecoveryOutcome {
    Applied,
    NotApplied,
}

/// Spreads the kills over the time that an apply takes on this machine.
fn kill_at_random_times(resources: usize, rounds: usize) {
    let fixture = CrashFixture::new(resources);
    let plan = fixture
        .world
        .create_plan_for("shop", TRUSTED, &["--arg", "text=first"]);
    fixture.world.execute(&plan).succeeded();
    let began = Instant::now();
    fixture.world.apply(&plan).succeeded();
    let usual = u64::try_from(began.elapsed().as_millis()).unwrap();
    let mut rng = TestRng::new(resources as u64);
    let mut applied = 0;
    for round in 0..rounds {
        let delay = Duration::from_millis(rng.next_below(usual * 5 / 4));
        applied += usize::from(
            fixture.run_apply_round(round, KillTime::After(delay)) == RecoveryOutcome::Applied,
        );
    }
    assert!(applied < rounds, "some die before anything is decided");
    for name in fixture.resources.iter().filter(|name| **name != "docs") {
        let folder = fixture.world.path(name);
        fixture.world.git(&folder, &["fsck", "--strict"]);
    }
}

#[test]
fn a_decided_apply_is_finished_by_the_next_command() {
    for resources in 1..=3 {
        let fixture = CrashFixture::new(resources);
        for round in 0..trials(2) {
            let early = ["apply_requested", "apply_intended"];
            fixture.run_apply_round(3 * round, KillTime::OnEvent(early[round % 2]));
            let end = fixture.run_apply_round(3 * round + 1, KillTime::OnEvent("apply_decided"));
            assert_eq!(end, RecoveryOutcome::Applied, "only forward from there");
        }
    }
}

#[test]
fn user_commits_before_recovery_are_kept() {
    let fixture = CrashFixture::new(1);
    let world = &fixture.world;
    for round in 0..trials(5) {
        let plan = fixture.create_executed_plan(round);
        let mut follower = Follower::start(world, &plan);
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
            // A lock of the killed git blocks the user until the next command.
            world
                .apply(&plan)
                .succeeded()
                .reports_state("apply/applied");
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
            // Its files already existed, so it cannot be merged; the error says what moved.
            let run = run.exits(4).prints("moved from");
            assert!(run.data()["conflicts"].is_array());
            return;
        }
        run.reports_state("apply/applied");
        let subjects = world.git(&shop, &["log", "-2", "--format=%s"]);
        let mut both: Vec<&str> = subjects.lines().collect();
        both.sort_unstable();
        assert_eq!(both, ["Do the job", "mine"], "round {round}");
        assert_eq!(world.git_status("shop"), "", "round {round}");
        assert_eq!(world.read("shop/made"), format!("round{round}\n"));
    }
}

#[test]
fn a_killed_unapply_is_all_or_nothing() {
    let fixture = CrashFixture::new(2);
    let mut rng = TestRng::new(4);
    for round in 0..trials(8) {
        fixture.run_unapply_round(round, Duration::from_millis(rng.next_below(1500)));
    }
}

#[test]
fn a_killed_apply_of_one_resource_is_atomic() {
    kill_at_random_times(1, trials(12));
}

#[test]
fn a_killed_apply_of_two_resources_is_atomic() {
    kill_at_random_times(2, trials(10));
}

#[test]
fn a_killed_apply_of_three_resources_is_atomic() {
    kill_at_random_times(3, trials(8));
}

//! A plan with two repositories is applied while the user commits to one of them: both change, or
//! neither does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::event_follower::TestRng;
use crate::world::{TRUSTED, TestWorld, trials};

const RESOURCES: [&str; 2] = ["shop", "lib"];

fn new_world() -> TestWorld {
    let world = TestWorld::empty();
    for name in RESOURCES {
        world.create_repository(name);
    }
    world.create_project("shop", &RESOURCES);
    let steps = RESOURCES.map(|name| {
        format!(
            "- {{tool: builtin/shell, resource: local/{name}, input: \
             {{command: 'echo {{{{ args.text }}}} > made'}}}}\n"
        )
    });
    world.define_worker(&steps.concat());
    world.define_worker_job("arguments: [{name: text, type: string, required: true}]\n");
    world
}

/// Commits to one repository until stopped; returns the number of commits.
fn commit_until(world: &TestWorld, name: &str, is_over: &AtomicBool) -> usize {
    let folder = world.path(name);
    let mut made = 0;
    while !is_over.load(Ordering::Relaxed) {
        world.write(&format!("{name}/mine"), &format!("{made}\n"));
        let added = world.try_git(&folder, &["add", "mine"]);
        let committed = world.try_git(&folder, &["commit", "-q", "-m", "mine"]);
        made += usize::from(added.code == Some(0) && committed.code == Some(0));
    }
    made
}

fn count_plan_commits(world: &TestWorld, name: &str) -> usize {
    let log = world.git(&world.path(name), &["log", "--format=%s"]);
    log.lines().filter(|line| *line == "Do the job").count()
}

#[test]
fn both_repositories_change_or_neither_does() {
    let world = new_world();
    let mut rng = TestRng::new(11);
    let mut made = 0;
    for round in 0..trials(8) {
        let text = format!("text=round{round}");
        let plan = world.create_plan_for("shop", TRUSTED, &["--arg", &text]);
        world.execute(&plan).succeeded();
        let before = RESOURCES.map(|name| count_plan_commits(&world, name));
        let busy = RESOURCES[usize::try_from(rng.next_below(2)).unwrap()];
        let is_over = AtomicBool::new(false);
        let run = thread::scope(|scope| {
            let committer = scope.spawn(|| commit_until(&world, busy, &is_over));
            let run = world.apply(&plan);
            is_over.store(true, Ordering::Relaxed);
            made += committer.join().unwrap();
            run
        });
        let state = world.state(&plan);
        let more = usize::from(state == "apply/applied");
        let after = RESOURCES.map(|name| count_plan_commits(&world, name));
        let wanted = before.map(|it| it + more);
        assert_eq!(
            after, wanted,
            "round {round}, {busy} busy, {state}: {run:?}"
        );
        // The blocked commit of the user works now, and then the plan can be applied.
        world.try_git(&world.path(busy), &["add", "mine"]);
        world.try_git(&world.path(busy), &["commit", "-q", "-m", "mine"]);
        world
            .apply(&plan)
            .succeeded()
            .reports_state("apply/applied");
        for name in RESOURCES {
            assert_eq!(world.git_status(name), "", "round {round}");
        }
    }
    assert!(made > 0, "nobody committed anything");
}

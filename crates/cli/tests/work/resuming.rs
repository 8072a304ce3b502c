//! `plan resume` continues a run with the approvals that the user gave: up to the diff and the
//! question, with `--yes` to the applied change.

use std::io::Write as _;

use cleveragents_cli::bootstrap::ApplyStep;
use rustix::process::{Pid, Signal, kill_process};

use crate::event_follower::Follower;
use crate::kill_at_step::{WorldSnapshot, kill_when_reached};
use crate::models::{finish, strategy, turn};
use crate::run_command::{
    read_to_end, read_until_prompt, run_on_terminal, run_words, shop_path, start_on_terminal,
    world_without_project,
};
use crate::world::{AgentsRun, TestWorld};

/// Returns the id of the newest plan.
fn newest_plan(world: &TestWorld) -> String {
    let plans = world.json_data(&["plan", "list"]);
    plans["plans"][0]["plan_id"].as_str().unwrap().to_owned()
}

/// A model that fails where the script ends, until it gets the rest of its turns.
fn write_script(world: &TestWorld, turns: &[String]) {
    let text = format!("turns:\n{}", turns.concat());
    world.write("home/coder-script.yaml", &text);
}

fn coder_turns() -> [String; 3] {
    [
        strategy(&["Write it"]),
        turn(&[("file-write", "{path: new, content: \"made\\n\"}")]),
        finish("It is made"),
    ]
}

/// The hints of a run.
fn has_hint(run: &AgentsRun, hint: &str) -> bool {
    run.stdout.contains(&format!("\"{hint}\""))
}

#[test]
fn a_run_with_yes_killed_before_its_decision_is_applied_by_resume() {
    let world = world_without_project();
    let path = shop_path(&world);
    let to = ["--yes", "--to", "branch", "agents/made"];
    let words = run_words(&["make it"], &to, &path);
    kill_when_reached(&world, &words, &["home", "shop"], ApplyStep::IntentWritten);
    let plan = newest_plan(&world);
    let snapshot = WorldSnapshot::capture(&world, &["home", "shop"]);
    for other_command in [false, true] {
        if other_command {
            // It removes what the dead process prepared, and applies nothing itself.
            world.run(&["init"]).succeeded();
            let status = world.run_json(&["plan", "status", &plan]).succeeded();
            let resume = format!("agents plan resume {plan}");
            assert!(has_hint(&status, &resume), "{status:?}");
        }
        let preview = world.json_data(&["plan", "resume", &plan, "--dry-run"]);
        assert_eq!(preview["outlook"]["next"], "apply_approved", "{preview}");
        world
            .resume(&plan)
            .succeeded()
            .reports_state("apply/applied");
        let shown = world.git(&world.path("shop"), &["show", "agents/made:new"]);
        assert_eq!(shown, "made\n");
        assert_eq!(world.commits("shop"), 1);
        snapshot.restore();
    }
    // `plan execute` approves no apply.
    world.run(&["init"]).succeeded();
    world.execute(&plan).exits(5).reports_state("apply/errored");
}

/// Only the apply is left, which uses no model and has no limit of time.
#[test]
fn a_budget_for_an_apply_alone_is_refused() {
    let world = world_without_project();
    let path = shop_path(&world);
    let words = run_words(&["make it"], &["--yes"], &path);
    kill_when_reached(&world, &words, &["home", "shop"], ApplyStep::IntentWritten);
    let plan = newest_plan(&world);
    world.run(&["init"]).succeeded();
    for budget in [
        ["--max-usd", "5"],
        ["--max-tokens", "100000"],
        ["--max-wall", "3600"],
    ] {
        let words = [&["plan", "resume", &plan][..], &budget].concat();
        let run = world.run_json(&words).exits(2);
        let resume = format!("agents plan resume {plan}");
        assert!(has_hint(&run, &resume), "{run:?}");
        assert_eq!(world.state(&plan), "apply/errored");
        assert_eq!(world.commits("shop"), 1);
    }
    world
        .resume(&plan)
        .succeeded()
        .reports_state("apply/applied");
}

#[test]
fn a_run_that_failed_goes_on_with_its_approvals() {
    let world = world_without_project();
    let path = shop_path(&world);
    // Fails while it makes the strategy: `run` approved it in advance. Each request takes the next
    // turn, also one that fails because there is none.
    let used = "  - {text: It has no strategy}\n".to_owned();
    write_script(&world, std::slice::from_ref(&used));
    let run = world.run_json(&run_words(&["make it"], &["--yes"], &path));
    let plan = run.exits(1).data()["plan_id"].as_str().unwrap().to_owned();
    // Fails again, while it executes.
    let [strategy, work, end] = coder_turns();
    let mut turns = vec![used.clone(), used.clone(), strategy];
    write_script(&world, &turns);
    let run = world
        .resume(&plan)
        .exits(1)
        .reports_state("execute/errored");
    assert!(has_hint(&run, &format!("agents plan resume {plan}")));
    turns.extend([used, work, end]);
    write_script(&world, &turns);
    let snapshot = WorldSnapshot::capture(&world, &["home", "shop"]);
    world
        .resume(&plan)
        .succeeded()
        .reports_state("apply/applied");
    assert_eq!(world.read("shop/new"), "made\n");
    // `plan execute` is another request: its result waits for a review.
    snapshot.restore();
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    assert_eq!(world.commits("shop"), 1);
}

#[test]
fn a_resumed_run_ends_with_the_diff_and_the_question() {
    let world = world_without_project();
    let path = shop_path(&world);
    let turns = coder_turns();
    let slow = format!("{}    delay_ms: 80000000\n", finish("Never"));
    let interrupted = [turns[0].clone(), slow, turns[1].clone(), turns[2].clone()];
    write_script(&world, &interrupted);
    let to = ["--events", "--to", "branch", "agents/made"];
    let child = world.start(&run_words(&["make it"], &to, &path));
    let pid = Pid::from_child(&child);
    let mut worker = Follower::from_child(child);
    (0..2).for_each(|_| drop(worker.wait_for("model_asked")));
    kill_process(pid, Signal::INT).unwrap();
    worker.wait_until("the envelope", |it| it["exit_code"] == 130);
    let plan = newest_plan(&world);
    let snapshot = WorldSnapshot::capture(&world, &["home", "shop"]);
    let resume = ["plan", "resume", &plan];
    let (code, seen) = run_on_terminal(&world, &resume, "n\n");
    assert_eq!(code, Some(5), "{seen}");
    assert!(seen.contains("+made"), "the diff is shown: {seen}");
    assert!(seen.contains("--to branch agents/made"), "{seen}");
    // Repeated, it asks again.
    let (child, mut terminal) = start_on_terminal(&world, &resume);
    read_until_prompt(&mut terminal);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let (code, seen) = read_to_end(child, terminal);
    assert_eq!(code, Some(130), "{seen}");
    assert!(seen.contains("agents plan apply"), "{seen}");
    snapshot.restore();
    let (child, mut terminal) = start_on_terminal(&world, &resume);
    read_until_prompt(&mut terminal);
    terminal.write_all(b"y\n").unwrap();
    let (code, seen) = read_to_end(child, terminal);
    assert_eq!(code, Some(0), "{seen}");
    let shown = world.git(&world.path("shop"), &["show", "agents/made:new"]);
    assert_eq!(shown, "made\n");
    // Without a terminal, the open gate is a message.
    snapshot.restore();
    world
        .resume(&plan)
        .succeeded()
        .reports_state("execute/complete");
}

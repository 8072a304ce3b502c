//! Concurrent processes: one cancels, one wants the same plan, one runs another plan.

use std::process::Child;

use serde_json::Value;

use crate::event_follower::{Follower, is_process_running, wait_until_true};
use crate::world::{AgentsRun, TRUSTED, TestWorld};

fn wait_for_run(child: Child) -> AgentsRun {
    AgentsRun::from_output(child.wait_with_output().unwrap())
}

/// Returns a command that runs until it is killed and can be found by this number.
fn endless_step(number: u32) -> String {
    format!(
        "- {{tool: builtin/shell, input: {{command: 'echo begun > begun; \
         setsid sleep {number} & sleep {number}', timeout: 600}}}}"
    )
}

#[test]
fn cancelling_a_plan_stops_all_its_processes() {
    let world = TestWorld::new();
    world.define_worker(&endless_step(31_536_001));
    world.define_worker_job("");
    let plan = world.create_plan(TRUSTED);
    let works = world.start(&["plan", "execute", &plan, "--format", "json"]);
    Follower::start(&world, &plan).wait_for("process_started");
    wait_until_true("the command runs", || is_process_running("31536001"));
    // Other commands that want to run the plan are refused meanwhile.
    assert_eq!(world.state(&plan), "execute/processing");
    world.execute(&plan).exits(4);
    world.apply(&plan).exits(4);
    world.run_json(&["plan", "rollback", &plan, "1"]).exits(4);
    let cancel = world.run_json(&["plan", "cancel", &plan, "--reason", "enough"]);
    cancel.succeeded().reports_state("execute/cancelled");
    assert!(
        !is_process_running("31536001"),
        "all that it started is gone when the plan is cancelled"
    );
    let works = wait_for_run(works)
        .exits(4)
        .reports_state("execute/cancelled");
    works.prints("cancelled");
    assert_eq!(world.state(&plan), "execute/cancelled");
    assert_eq!(world.events_of_kind(&plan, "plan_cancelled").len(), 1);
    world
        .execute(&plan)
        .exits(4)
        .reports_state("execute/cancelled");
    world
        .apply(&plan)
        .exits(4)
        .reports_state("execute/cancelled");
    assert_eq!(world.commits("shop"), 1);
}

#[test]
fn cancelling_a_plan_stops_its_checks() {
    let world = TestWorld::new();
    world.define_worker("- {tool: builtin/file-write, input: {path: made, content: made}}");
    world.define_worker_job(
        "checks: [{run: 'setsid sleep 31536002 & sleep 31536002', timeout: 600}]\n",
    );
    let plan = world.create_plan(TRUSTED);
    let works = world.start(&["plan", "execute", &plan, "--format", "json"]);
    wait_until_true("the check runs", || is_process_running("31536002"));
    let cancel = world.run_json(&["plan", "cancel", &plan, "--wait", "120"]);
    cancel.succeeded().reports_state("execute/cancelled");
    assert!(!is_process_running("31536002"));
    wait_for_run(works)
        .exits(4)
        .reports_state("execute/cancelled");
    assert_eq!(
        world.events_of_kind(&plan, "validations_completed").len(),
        0
    );
}

/// An apply repeats the checks if its target has moved. Only then does this check take long.
#[test]
fn cancelling_an_apply_stops_the_check_of_its_merge() {
    let world = TestWorld::new();
    world.define_worker("- {tool: builtin/file-write, input: {path: made, content: made}}");
    let check = "if test -e theirs; then setsid sleep 31536003 & sleep 31536003; fi";
    world.define_worker_job(&format!("checks: [{{run: '{check}', timeout: 600}}]\n"));
    let plan = world.create_plan(TRUSTED);
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    world.write("shop/theirs", "theirs");
    world.commit("shop", "theirs");
    let works = world.start(&["plan", "apply", &plan, "--yes", "--format", "json"]);
    wait_until_true("the check runs", || is_process_running("31536003"));
    let cancel = world.run_json(&["plan", "cancel", &plan, "--wait", "120"]);
    cancel.succeeded().reports_state("apply/cancelled");
    assert!(!is_process_running("31536003"));
    wait_for_run(works)
        .exits(4)
        .prints("nothing was applied: the plan is at apply/cancelled");
    assert_eq!(world.commits("shop"), 2);
    assert_eq!(world.git_status("shop"), "");
}

#[test]
fn one_of_two_executors_runs_the_plan() {
    let world = TestWorld::new();
    let call = "- {tool: builtin/shell, input: {command: 'echo x >> log'}}\n";
    world.define_worker(&call.repeat(3));
    world.define_worker_job("");
    for _ in 0..3 {
        let plan = world.create_plan(TRUSTED);
        let words = ["plan", "execute", &plan, "--format", "json"];
        let children: Vec<Child> = (0..4).map(|_| world.start(&words)).collect();
        let runs: Vec<AgentsRun> = children.into_iter().map(wait_for_run).collect();
        for run in &runs {
            assert!(matches!(run.code, Some(0 | 4)), "{run:?}");
        }
        assert!(runs.iter().any(|it| it.code == Some(0)));
        assert_eq!(world.state(&plan), "execute/complete");
        assert_eq!(world.events_of_kind(&plan, "tool_invoked").len(), 3);
        assert_eq!(world.sandbox_files(&plan)["log"], "0 x\nx\nx\n");
    }
}

#[test]
fn more_plans_than_slots_all_finish() {
    let world = TestWorld::new();
    world.define_worker(
        "- {tool: builtin/shell, input: {command: 'echo {{ args.name }} > {{ args.name }}'}}\n",
    );
    world.define_worker_job("arguments: [{name: name, type: string, required: true}]\n");
    world
        .run(&["config", "set", "plan.concurrency", "2"])
        .succeeded();
    let plan = |number| world.create_plan_for("shop", "ci", &["--arg", &format!("name=f{number}")]);
    let plans: Vec<String> = (0..8).map(plan).collect();
    let start = |plan: &String| world.start(&["plan", "execute", plan, "--format", "json"]);
    let children: Vec<Child> = plans.iter().map(start).collect();
    for (child, plan) in children.into_iter().zip(&plans) {
        // If the branch moves at the last moment, the apply merges with the new commit.
        wait_for_run(child)
            .succeeded()
            .reports_state("apply/applied");
        assert_eq!(world.state(plan), "apply/applied");
    }
    assert_eq!(world.commits("shop"), 9);
    assert_eq!(world.git_status("shop"), "");
    for number in 0..8 {
        assert_eq!(
            world.read(&format!("shop/f{number}")),
            format!("f{number}\n")
        );
    }
    world.git(&world.path("shop"), &["fsck", "--strict"]);
}

#[test]
fn a_plan_killed_in_the_queue_can_be_resumed() {
    let world = TestWorld::new();
    world.define_worker(&endless_step(31_536_004));
    world.define_worker_job("");
    world
        .run(&["config", "set", "plan.concurrency", "1"])
        .succeeded();
    let (first, second) = (world.create_plan(TRUSTED), world.create_plan(TRUSTED));
    let works = world.start(&["plan", "execute", &first, "--format", "json"]);
    Follower::start(&world, &first).wait_for("process_started");
    let mut waits = world.start(&["plan", "execute", &second]);
    let mut follower = Follower::start(&world, &second);
    let is_slot = |event: &Value| event["payload"].to_string().contains("slot");
    follower.wait_until("it waits for a slot", is_slot);
    waits.kill().unwrap();
    waits.wait().unwrap();
    let waits = world.start(&["plan", "execute", &second, "--format", "json"]);
    follower.wait_until("it waits again", is_slot);
    world.run_json(&["plan", "cancel", &first]).succeeded();
    wait_for_run(works).exits(4);
    follower.wait_for("process_started");
    let status = world.json_data(&["plan", "status", &second]);
    assert_eq!(status["state"], "processing", "{status}");
    assert!(status["waiting"].is_null(), "{status}");
    world.run_json(&["plan", "cancel", &second]).succeeded();
    wait_for_run(waits).exits(4);
}

#[test]
fn a_plan_that_waits_for_a_slot_can_be_cancelled() {
    let world = TestWorld::new();
    world.define_worker(&endless_step(31_536_003));
    world.define_worker_job("");
    world
        .run(&["config", "set", "plan.concurrency", "1"])
        .succeeded();
    let (first, second) = (world.create_plan(TRUSTED), world.create_plan(TRUSTED));
    let works = world.start(&["plan", "execute", &first, "--format", "json"]);
    Follower::start(&world, &first).wait_for("process_started");
    let waits = world.start(&["plan", "execute", &second, "--format", "json"]);
    let mut follower = Follower::start(&world, &second);
    follower.wait_for("execute_requested");
    follower.wait_until("it waits for a slot", |event| {
        event["payload"].to_string().contains("slot")
    });
    let status = world.json_data(&["plan", "status", &second]);
    assert_eq!(status["state"], "queued", "{status}");
    assert_eq!(status["waiting"]["kind"], "slot", "{status}");
    assert!(status["owner"].is_null(), "{status}");
    let shown = world.run(&["plan", "status", &second]).succeeded();
    shown.prints("waits for a free slot");
    let cancel = world.run_json(&["plan", "cancel", &second]);
    cancel.succeeded().reports_state("strategize/cancelled");
    wait_for_run(waits)
        .exits(4)
        .reports_state("strategize/cancelled");
    assert_eq!(world.events_of_kind(&second, "tool_invoked").len(), 0);
    world.run_json(&["plan", "cancel", &first]).succeeded();
    wait_for_run(works).exits(4);
}

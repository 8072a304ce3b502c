//! Others beside the process that works: who cancels, who wants the same plan, who has another.

use std::process::Child;

use serde_json::Value;

use crate::following::{Follower, runs, until};
use crate::world::{ALONE, Run, World};

fn ended(child: Child) -> Run {
    Run::of(child.wait_with_output().unwrap())
}

/// A command that runs until it is ended and can be found by this number.
fn endless(number: u32) -> String {
    format!(
        "- {{tool: builtin/shell, input: {{command: 'echo begun > begun; \
         setsid sleep {number} & sleep {number}', timeout: 600}}}}"
    )
}

#[test]
fn a_plan_that_is_cancelled_stops_with_all_that_it_started() {
    let world = World::new();
    world.worker(&endless(31_536_001));
    world.job("");
    let plan = world.plan(ALONE);
    let works = world.start(&["plan", "execute", &plan, "--format", "json"]);
    Follower::of(&world, &plan).wait_for("process_started");
    until("the command runs", || runs("31536001"));
    // Who only looks or wants to work on it meanwhile is told that it is taken.
    assert_eq!(world.state(&plan), "execute/processing");
    world.execute(&plan).exits(4);
    world.apply(&plan).exits(4);
    world.ask(&["plan", "rollback", &plan, "1"]).exits(4);
    let cancel = world.ask(&["plan", "cancel", &plan, "--reason", "enough"]);
    cancel.succeeded().stands("execute/cancelled");
    assert!(
        !runs("31536001"),
        "all that it started is gone when the plan is cancelled"
    );
    let works = ended(works).exits(4).stands("execute/cancelled");
    works.says("cancelled");
    assert_eq!(world.state(&plan), "execute/cancelled");
    assert_eq!(world.told(&plan, "plan_cancelled").len(), 1);
    world.execute(&plan).succeeded().stands("execute/cancelled");
    world.apply(&plan).succeeded().stands("execute/cancelled");
    assert_eq!(world.commits("shop"), 1);
}

#[test]
fn a_plan_that_is_cancelled_while_it_is_checked_stops_too() {
    let world = World::new();
    world.worker("- {tool: builtin/file-write, input: {path: made, content: made}}");
    world.job("checks: [{run: 'setsid sleep 31536002 & sleep 31536002', timeout: 600}]\n");
    let plan = world.plan(ALONE);
    let works = world.start(&["plan", "execute", &plan, "--format", "json"]);
    until("the check runs", || runs("31536002"));
    let cancel = world.ask(&["plan", "cancel", &plan, "--wait", "120"]);
    cancel.succeeded().stands("execute/cancelled");
    assert!(!runs("31536002"));
    ended(works).exits(4).stands("execute/cancelled");
    assert_eq!(world.told(&plan, "validations_completed").len(), 0);
}

/// Apply runs the checks again where its target has moved. Only there does this one take long.
#[test]
fn cancelling_an_apply_stops_the_check_of_its_merge() {
    let world = World::new();
    world.worker("- {tool: builtin/file-write, input: {path: made, content: made}}");
    let check = "if test -e theirs; then setsid sleep 31536003 & sleep 31536003; fi";
    world.job(&format!("checks: [{{run: '{check}', timeout: 600}}]\n"));
    let plan = world.plan(ALONE);
    world.execute(&plan).succeeded().stands("execute/complete");
    world.write("shop/theirs", "theirs");
    world.commit("shop", "theirs");
    let works = world.start(&["plan", "apply", &plan, "--yes", "--format", "json"]);
    until("the check runs", || runs("31536003"));
    let cancel = world.ask(&["plan", "cancel", &plan, "--wait", "120"]);
    cancel.succeeded().stands("apply/cancelled");
    assert!(!runs("31536003"));
    ended(works).exits(4).says("the plan was cancelled");
    assert_eq!(world.commits("shop"), 2);
    assert_eq!(world.dirt("shop"), "");
}

#[test]
fn of_two_who_execute_one_plan_one_works() {
    let world = World::new();
    let call = "- {tool: builtin/shell, input: {command: 'echo x >> log'}}\n";
    world.worker(&call.repeat(3));
    world.job("");
    for _ in 0..3 {
        let plan = world.plan(ALONE);
        let words = ["plan", "execute", &plan, "--format", "json"];
        let children: Vec<Child> = (0..4).map(|_| world.start(&words)).collect();
        let runs: Vec<Run> = children.into_iter().map(ended).collect();
        for run in &runs {
            assert!(matches!(run.code, Some(0 | 4)), "{run:?}");
        }
        assert!(runs.iter().any(|it| it.code == Some(0)));
        assert_eq!(world.state(&plan), "execute/complete");
        assert_eq!(world.told(&plan, "tool_invoked").len(), 3);
        assert_eq!(world.sandbox_files(&plan)["log"], "0 x\nx\nx\n");
    }
}

#[test]
fn more_plans_than_slots_all_finish() {
    let world = World::new();
    world.worker(
        "- {tool: builtin/shell, input: {command: 'echo {{ args.name }} > {{ args.name }}'}}\n",
    );
    world.job("arguments: [{name: name, type: string, required: true}]\n");
    world
        .run(&["config", "set", "plan.concurrency", "2"])
        .succeeded();
    let plan = |number| world.plan_of("shop", "ci", &["--arg", &format!("name=f{number}")]);
    let plans: Vec<String> = (0..8).map(plan).collect();
    let start = |plan: &String| world.start(&["plan", "execute", plan, "--format", "json"]);
    let children: Vec<Child> = plans.iter().map(start).collect();
    for (child, plan) in children.into_iter().zip(&plans) {
        // Whose branch moves in the last moment merges with what came before it.
        ended(child).succeeded().stands("apply/applied");
        assert_eq!(world.state(plan), "apply/applied");
    }
    assert_eq!(world.commits("shop"), 9);
    assert_eq!(world.dirt("shop"), "");
    for number in 0..8 {
        assert_eq!(
            world.read(&format!("shop/f{number}")),
            format!("f{number}\n")
        );
    }
    world.git(&world.path("shop"), &["fsck", "--strict"]);
}

#[test]
fn who_waited_for_a_slot_and_was_killed_is_gone_on_from() {
    let world = World::new();
    world.worker(&endless(31_536_004));
    world.job("");
    world
        .run(&["config", "set", "plan.concurrency", "1"])
        .succeeded();
    let (first, second) = (world.plan(ALONE), world.plan(ALONE));
    let works = world.start(&["plan", "execute", &first, "--format", "json"]);
    Follower::of(&world, &first).wait_for("process_started");
    let mut waits = world.start(&["plan", "execute", &second]);
    let mut follower = Follower::of(&world, &second);
    let is_slot = |event: &Value| event["payload"].to_string().contains("slot");
    follower.wait_until("it waits for a slot", is_slot);
    waits.kill().unwrap();
    waits.wait().unwrap();
    let waits = world.start(&["plan", "execute", &second, "--format", "json"]);
    follower.wait_until("it waits again", is_slot);
    world.ask(&["plan", "cancel", &first]).succeeded();
    ended(works).exits(4);
    follower.wait_for("process_started");
    let status = world.data(&["plan", "status", &second]);
    assert_eq!(status["state"], "processing", "{status}");
    assert!(status["waiting"].is_null(), "{status}");
    world.ask(&["plan", "cancel", &second]).succeeded();
    ended(waits).exits(4);
}

#[test]
fn a_plan_that_waits_for_a_slot_can_be_cancelled() {
    let world = World::new();
    world.worker(&endless(31_536_003));
    world.job("");
    world
        .run(&["config", "set", "plan.concurrency", "1"])
        .succeeded();
    let (first, second) = (world.plan(ALONE), world.plan(ALONE));
    let works = world.start(&["plan", "execute", &first, "--format", "json"]);
    Follower::of(&world, &first).wait_for("process_started");
    let waits = world.start(&["plan", "execute", &second, "--format", "json"]);
    let mut follower = Follower::of(&world, &second);
    follower.wait_for("execute_requested");
    follower.wait_until("it waits for a slot", |event| {
        event["payload"].to_string().contains("slot")
    });
    let status = world.data(&["plan", "status", &second]);
    assert_eq!(status["state"], "queued", "{status}");
    assert_eq!(status["waiting"]["kind"], "slot", "{status}");
    assert!(status["owner"].is_null(), "{status}");
    let shown = world.run(&["plan", "status", &second]).succeeded();
    shown.says("waits for a free slot");
    let cancel = world.ask(&["plan", "cancel", &second]);
    cancel.succeeded().stands("strategize/cancelled");
    ended(waits).exits(4).stands("strategize/cancelled");
    assert_eq!(world.told(&second, "tool_invoked").len(), 0);
    world.ask(&["plan", "cancel", &first]).succeeded();
    ended(works).exits(4);
}

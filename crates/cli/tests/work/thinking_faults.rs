//! Models that fail: every fault at every turn is on record, and what can be tried again is.

use std::ops::Range;

use cleveragents_domain::script::FaultKind;

use crate::following::Follower;
use crate::models::{finish, strategy, text_of, turn};
use crate::world::{ALONE, Run, World};

/// The turns of a small plan's worker; each leaves its mark once.
fn turns() -> [String; 3] {
    [
        turn(&[("shell", "{command: 'echo 1 >> log'}")]),
        turn(&[
            ("shell", "{command: 'echo 2 >> log'}"),
            ("file-write", "{path: new, content: x}"),
        ]),
        finish("Done"),
    ]
}

/// All turns of a plan that finds its strategy, carries it out, and mends what a check found.
fn whole_script() -> Vec<String> {
    let planning = [turn(&[("file-list", "{}")]), strategy(&["One"])];
    let mending = [
        turn(&[("shell", "{command: 'echo 3 >> log'}")]),
        finish("Mended"),
    ];
    [&planning[..], &turns(), &mending].concat()
}

fn fault(kind: FaultKind, seconds: f64) -> String {
    format!("    fault: {{kind: {kind}, retry_after: {seconds}}}\n")
}

/// What is wrong until the mark of who mends is there.
const CHECK: &str = "checks: [{run: 'test $(wc -l < log) -ge 3'}]\n";

/// Every fault there is at each of these turns: what can be tried again is, on record, and nothing
/// is done twice.
#[track_caller]
fn every_fault_at(places: Range<usize>) {
    let world = World::new();
    for kind in FaultKind::ALL {
        for place in places.clone() {
            let trial = format!("{kind} at turn {place}");
            let mut script = whole_script();
            // One that is only slow answers in the end; of the others half may arrive, and then the
            // model is asked again.
            let failing = match kind.has_parts() {
                true => format!("{}{}", script[place], fault(*kind, 0.01)),
                false => fault(*kind, 0.01).replacen("    ", "  - ", 1),
            };
            let fails = *kind != FaultKind::Slow;
            match fails {
                true => script.insert(place, failing),
                false => script[place] = failing,
            }
            world.thinker("coder", &script.concat(), "");
            world.thought_job("local/coder", "local/coder", CHECK);
            let plan = world.plan(ALONE);
            let run = world.execute(&plan);
            assert_eq!(run.code, Some(0), "{trial}: {run:?}");
            assert_eq!(world.state(&plan), "execute/complete", "{trial}");
            let mut wanted = world.files("shop");
            wanted.insert("log".to_owned(), "0 1\n2\n3\n".to_owned());
            wanted.insert("new".to_owned(), "0 x".to_owned());
            assert_eq!(world.sandbox_files(&plan), wanted, "{trial}");
            // What the check found is on record beside the fault.
            let mut errors = world.error_kinds(&plan);
            errors.retain(|it| it != "validation");
            let recorded: &[&str] = match kind {
                FaultKind::RateLimit => &["rate_limit"],
                FaultKind::Timeout => &["timeout"],
                FaultKind::ServerError | FaultKind::Truncated => &["transient_network"],
                FaultKind::MalformedJson => &["model_output"],
                FaultKind::Slow => &[],
            };
            assert_eq!(errors, recorded, "{trial}");
            let mut ends = vec!["answered"; script.len()];
            if fails {
                ends[place] = "failed";
            }
            assert_eq!(world.ends_of_asking(&plan), ends, "{trial}");
            assert_eq!(world.told(&plan, "tool_completed").len(), 8, "{trial}");
            assert_eq!(world.told(&plan, "strategy_stored").len(), 1, "{trial}");
            let validated = world.told(&plan, "validations_completed");
            assert_eq!(validated.len(), 2, "{trial}");
        }
    }
}

#[test]
fn every_fault_at_every_turn_of_who_plans_is_recorded_and_does_nothing_twice() {
    every_fault_at(0..2);
}

#[test]
fn every_fault_at_every_turn_of_who_works_is_recorded_and_does_nothing_twice() {
    every_fault_at(2..5);
}

#[test]
fn every_fault_at_every_turn_of_who_mends_is_recorded_and_does_nothing_twice() {
    assert_eq!(whole_script().len(), 7, "there is no other turn");
    every_fault_at(5..7);
}

#[test]
fn a_model_that_cannot_be_asked_while_it_mends_says_nothing_of_what_can_be_mended() {
    let world = World::new();
    let mut script = whole_script();
    let mending = script.split_off(5);
    world.thinker("coder", &script.concat(), "");
    world.thought_job("local/coder", "local/coder", CHECK);
    let plan = world.plan(ALONE);
    world.execute(&plan).exits(1).stands("execute/errored");
    assert_eq!(world.told(&plan, "validations_completed").len(), 1);
    // The turn that was asked for in vain is gone.
    script.push(finish("Nobody hears this"));
    script.extend(mending);
    world.thinker("coder", &script.concat(), "");
    world.resume(&plan).succeeded().stands("execute/complete");
    assert_eq!(world.sandbox_files(&plan)["log"], "0 1\n2\n3\n");
    assert_eq!(world.told(&plan, "tool_completed").len(), 8);
}

#[test]
fn a_strategy_is_found_however_the_model_fails_meanwhile() {
    let world = World::new();
    let strategy = strategy(&["One"]);
    let failing = [FaultKind::Truncated, FaultKind::MalformedJson];
    let failing = failing.map(|kind| format!("{strategy}{}", fault(kind, 0.01)));
    let script = [failing.concat(), strategy, finish("Done")].concat();
    world.thinker("coder", &script, "");
    world.thought_job("local/coder", "local/coder", "");
    let plan = world.plan(ALONE);
    world.execute(&plan).succeeded().stands("execute/complete");
    let kinds = world.error_kinds(&plan);
    assert_eq!(kinds.len(), 2, "{kinds:?}");
    assert!(kinds.contains(&"transient_network".to_owned()), "{kinds:?}");
    assert!(kinds.contains(&"model_output".to_owned()), "{kinds:?}");
    assert_eq!(world.told(&plan, "strategy_stored").len(), 1);
}

#[test]
fn a_provider_that_wants_to_be_left_alone_parks_the_plan() {
    let world = World::new();
    let [first, rest @ ..] = turns();
    let limited = format!(
        "  - fault: {{kind: {}, retry_after: 3600}}\n",
        FaultKind::RateLimit
    );
    world.thinker("coder", &[first, limited, rest.concat()].concat(), "");
    world.thought_job("builtin/direct", "local/coder", "");
    let plan = world.plan(ALONE);
    let run = world.execute(&plan).exits(75).stands("execute/queued");
    run.says(&format!("agents plan resume {plan}"));
    world.waits_for(&plan, "until");
    let status = world.data(&["plan", "status", &plan]);
    assert!(status["waiting"]["until"].is_string(), "{status}");
    assert_eq!(world.error_kinds(&plan), ["rate_limit"]);
    // Nobody owns it meanwhile; whoever asks for it goes on.
    world.resume(&plan).succeeded().stands("execute/complete");
    assert_eq!(world.sandbox_files(&plan)["log"], "0 1\n2\n");
    assert_eq!(
        world.ends_of_asking(&plan),
        ["answered", "failed", "answered", "answered"]
    );
}

#[test]
fn five_failures_in_a_row_end_the_work_until_somebody_goes_on() {
    let world = World::new();
    let [first, rest @ ..] = turns();
    let failing = format!("  - fault: {{kind: {}}}\n", FaultKind::ServerError).repeat(5);
    world.thinker("coder", &[first, failing, rest.concat()].concat(), "");
    world.thought_job("builtin/direct", "local/coder", "");
    let plan = world.plan(ALONE);
    let run = world.execute(&plan).exits(1).stands("execute/errored");
    run.says(&format!("agents plan errors {plan}"));
    assert_eq!(world.error_kinds(&plan), ["transient_network"; 5]);
    world.resume(&plan).succeeded().stands("execute/complete");
    assert_eq!(world.sandbox_files(&plan)["log"], "0 1\n2\n");
    assert_eq!(world.told(&plan, "tool_completed").len(), 4);
}

#[test]
fn a_script_that_is_at_its_end_is_an_error_that_nothing_is_waited_for() {
    let world = World::new();
    world.thinker("coder", &turn(&[("file-list", "{}")]), "");
    world.thought_job("builtin/direct", "local/coder", "");
    let plan = world.plan(ALONE);
    let run = world.execute(&plan).exits(1).stands("execute/errored");
    run.says("has 1 turn and was asked for turn 2");
    assert_eq!(world.error_kinds(&plan), ["model_output"]);
    assert_eq!(world.ends_of_asking(&plan), ["answered", "failed"]);
}

#[test]
fn who_is_let_through_to_try_does_not_wait_for_itself() {
    let world = World::new();
    let failing = format!("  - fault: {{kind: {}}}\n", FaultKind::ServerError).repeat(3);
    world.thinker("coder", &[failing, turns().concat()].concat(), "");
    // Whoever waits for itself waits for ever: the time that the plan has says so.
    world.thought_job("builtin/direct", "local/coder", "budget: {wall: 75}\n");
    let plan = world.plan(ALONE);
    let mut follower = Follower::of(&world, &plan);
    let child = world.start(&["plan", "execute", &plan, "--format", "json"]);
    (0..3).for_each(|_| drop(follower.wait_for("model_failed")));
    // The provider is left alone for a while. What is said meanwhile is heard by the one request
    // that is let through then, which has to be put together again for it.
    world
        .ask(&["plan", "prompt", &plan, "Mind the gap"])
        .succeeded();
    let run = Run::of(child.wait_with_output().unwrap());
    run.succeeded().stands("execute/complete");
    let mut ends = vec!["failed"; 3];
    ends.extend(["answered"; 3]);
    assert_eq!(world.ends_of_asking(&plan), ends);
    assert_eq!(world.error_kinds(&plan), ["transient_network"; 3]);
    let said: Vec<usize> = world
        .asked(&plan)
        .iter()
        .map(|it| text_of(it).matches("A human says: Mind the gap").count())
        .collect();
    assert_eq!(said, [0, 0, 0, 1, 1, 1]);
    assert_eq!(world.sandbox_files(&plan)["log"], "0 1\n2\n");
}

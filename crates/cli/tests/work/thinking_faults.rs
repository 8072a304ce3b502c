//! Models that fail: every fault at every turn is on record, and what can be tried again is.

use cleveragents_domain::script::FaultKind;

use crate::models::{finish, turn};
use crate::world::{ALONE, World};

/// The turns of a small plan; each leaves its mark once.
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

fn fault(kind: FaultKind, seconds: f64) -> String {
    format!("    fault: {{kind: {kind}, retry_after: {seconds}}}\n")
}

#[test]
fn every_fault_at_every_turn_is_recorded_and_does_nothing_twice() {
    let world = World::new();
    for kind in FaultKind::ALL {
        for place in 0..turns().len() {
            let trial = format!("{kind} at turn {place}");
            let mut script = turns().to_vec();
            // One that is only slow answers in the end; of the others half may arrive, and then the
            // model is asked again.
            let failing = match kind.has_parts() || *kind == FaultKind::Slow {
                true => format!("{}{}", script[place], fault(*kind, 0.01)),
                false => fault(*kind, 0.01).replacen("    ", "  - ", 1),
            };
            let fails = *kind != FaultKind::Slow;
            match fails {
                true => script.insert(place, failing),
                false => script[place] = failing,
            }
            world.thinker("coder", &script.concat(), "");
            world.thought_job("builtin/direct", "local/coder", "");
            let plan = world.plan(ALONE);
            let run = world.execute(&plan);
            assert_eq!(run.code, Some(0), "{trial}: {run:?}");
            assert_eq!(world.state(&plan), "execute/complete", "{trial}");
            let mut wanted = world.files("shop");
            wanted.insert("log".to_owned(), "0 1\n2\n".to_owned());
            wanted.insert("new".to_owned(), "0 x".to_owned());
            assert_eq!(world.sandbox_files(&plan), wanted, "{trial}");
            let errors = world.error_kinds(&plan);
            assert_eq!(errors.len(), usize::from(fails), "{trial}: {errors:?}");
            let mut ends = vec!["answered"; script.len()];
            if fails {
                ends[place] = "failed";
            }
            assert_eq!(world.ends_of_asking(&plan), ends, "{trial}");
            assert_eq!(world.told(&plan, "tool_completed").len(), 4, "{trial}");
        }
    }
}

#[test]
fn a_strategy_is_found_however_the_model_fails_meanwhile() {
    let world = World::new();
    let strategy = crate::models::strategy(&["One"]);
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

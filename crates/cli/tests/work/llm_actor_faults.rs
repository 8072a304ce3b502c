//! Models that fail: every fault at every turn is recorded, and retried where possible.

use std::ops::Range;

use cleveragents_domain::script::FaultKind;

use crate::event_follower::Follower;
use crate::models::{finish, messages_text, strategy, turn};
use crate::world::{AgentsRun, TRUSTED, TestWorld};

/// The turns of a small plan's worker; each appends its mark once.
fn worker_turns() -> [String; 3] {
    [
        turn(&[("shell", "{command: 'echo 1 >> log'}")]),
        turn(&[
            ("shell", "{command: 'echo 2 >> log'}"),
            ("file-write", "{path: new, content: x}"),
        ]),
        finish("Done"),
    ]
}

/// All turns of a plan that makes a strategy, executes it, and repairs a failed check.
fn whole_script() -> Vec<String> {
    let planning = [turn(&[("file-list", "{}")]), strategy(&["One"])];
    let repair_turns = [
        turn(&[("shell", "{command: 'echo 3 >> log'}")]),
        finish("Mended"),
    ];
    [&planning[..], &worker_turns(), &repair_turns].concat()
}

fn fault(kind: FaultKind, seconds: f64) -> String {
    format!("    fault: {{kind: {kind}, retry_after: {seconds}}}\n")
}

/// Fails until the repair has appended its mark.
const CHECK: &str = "checks: [{run: 'test $(wc -l < log) -ge 3'}]\n";

/// Injects every kind of fault at each of these turns: retryable ones are retried and recorded, and
/// nothing is done twice.
#[track_caller]
fn inject_every_fault_at(places: Range<usize>) {
    let world = TestWorld::new();
    for kind in FaultKind::ALL {
        for place in places.clone() {
            let trial = format!("{kind} at turn {place}");
            let mut script = whole_script();
            // A slow response still arrives. The other faults may deliver a part, and then the
            // request is repeated.
            let failing = if kind.has_parts() {
                format!("{}{}", script[place], fault(*kind, 0.01))
            } else {
                fault(*kind, 0.01).replacen("    ", "  - ", 1)
            };
            let fails = *kind != FaultKind::Slow;
            if fails {
                script.insert(place, failing);
            } else {
                script[place] = failing;
            }
            world.define_llm_actor("coder", &script.concat(), "");
            world.define_llm_job("local/coder", "local/coder", CHECK);
            let plan = world.create_plan(TRUSTED);
            let run = world.execute(&plan);
            assert_eq!(run.code, Some(0), "{trial}: {run:?}");
            assert_eq!(world.state(&plan), "execute/complete", "{trial}");
            let mut wanted = world.files("shop");
            wanted.insert("log".to_owned(), "0 1\n2\n3\n".to_owned());
            wanted.insert("new".to_owned(), "0 x".to_owned());
            assert_eq!(world.sandbox_files(&plan), wanted, "{trial}");
            // The failed check is recorded besides the fault.
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
            assert_eq!(world.model_call_states(&plan), ends, "{trial}");
            assert_eq!(
                world.events_of_kind(&plan, "tool_completed").len(),
                8,
                "{trial}"
            );
            assert_eq!(
                world.events_of_kind(&plan, "strategy_stored").len(),
                1,
                "{trial}"
            );
            let validated = world.events_of_kind(&plan, "validations_completed");
            assert_eq!(validated.len(), 2, "{trial}");
        }
    }
}

#[test]
fn faults_while_strategizing_are_recorded_and_retried() {
    inject_every_fault_at(0..2);
}

#[test]
fn faults_while_executing_are_recorded_and_retried() {
    inject_every_fault_at(2..5);
}

#[test]
fn faults_while_repairing_are_recorded_and_retried() {
    assert_eq!(whole_script().len(), 7, "there is no other turn");
    inject_every_fault_at(5..7);
}

#[test]
fn a_provider_error_during_repair_uses_no_attempt() {
    let world = TestWorld::new();
    let mut script = whole_script();
    let repair_turns = script.split_off(5);
    world.define_llm_actor("coder", &script.concat(), "");
    world.define_llm_job("local/coder", "local/coder", CHECK);
    let plan = world.create_plan(TRUSTED);
    world
        .execute(&plan)
        .exits(1)
        .reports_state("execute/errored");
    assert_eq!(
        world.events_of_kind(&plan, "validations_completed").len(),
        1
    );
    // The failed request has used up a turn.
    script.push(finish("Nobody hears this"));
    script.extend(repair_turns);
    world.define_llm_actor("coder", &script.concat(), "");
    world
        .resume(&plan)
        .succeeded()
        .reports_state("execute/complete");
    assert_eq!(world.sandbox_files(&plan)["log"], "0 1\n2\n3\n");
    assert_eq!(world.events_of_kind(&plan, "tool_completed").len(), 8);
}

#[test]
fn a_strategy_survives_model_faults() {
    let world = TestWorld::new();
    let strategy = strategy(&["One"]);
    let failing = [FaultKind::Truncated, FaultKind::MalformedJson];
    let failing = failing.map(|kind| format!("{strategy}{}", fault(kind, 0.01)));
    let script = [failing.concat(), strategy, finish("Done")].concat();
    world.define_llm_actor("coder", &script, "");
    world.define_llm_job("local/coder", "local/coder", "");
    let plan = world.create_plan(TRUSTED);
    world
        .execute(&plan)
        .succeeded()
        .reports_state("execute/complete");
    let kinds = world.error_kinds(&plan);
    assert_eq!(kinds.len(), 2, "{kinds:?}");
    assert!(kinds.contains(&"transient_network".to_owned()), "{kinds:?}");
    assert!(kinds.contains(&"model_output".to_owned()), "{kinds:?}");
    assert_eq!(world.events_of_kind(&plan, "strategy_stored").len(), 1);
}

#[test]
fn a_long_retry_after_parks_the_plan() {
    let world = TestWorld::new();
    let [first, rest @ ..] = worker_turns();
    let limited = format!(
        "  - fault: {{kind: {}, retry_after: 3600}}\n",
        FaultKind::RateLimit
    );
    world.define_llm_actor("coder", &[first, limited, rest.concat()].concat(), "");
    world.define_llm_job("builtin/direct", "local/coder", "");
    let plan = world.create_plan(TRUSTED);
    let run = world
        .execute(&plan)
        .exits(75)
        .reports_state("execute/queued");
    run.prints(&format!("agents plan resume {plan}"));
    world.assert_waiting_for(&plan, "until");
    let status = world.json_data(&["plan", "status", &plan]);
    assert!(status["waiting"]["until"].is_string(), "{status}");
    assert_eq!(world.error_kinds(&plan), ["rate_limit"]);
    // No process owns the plan meanwhile, so a resume continues it.
    world
        .resume(&plan)
        .succeeded()
        .reports_state("execute/complete");
    assert_eq!(world.sandbox_files(&plan)["log"], "0 1\n2\n");
    assert_eq!(
        world.model_call_states(&plan),
        ["answered", "failed", "answered", "answered"]
    );
}

#[test]
fn five_consecutive_failures_end_the_work_until_resume() {
    let world = TestWorld::new();
    let [first, rest @ ..] = worker_turns();
    let failing = format!("  - fault: {{kind: {}}}\n", FaultKind::ServerError).repeat(5);
    world.define_llm_actor("coder", &[first, failing, rest.concat()].concat(), "");
    world.define_llm_job("builtin/direct", "local/coder", "");
    let plan = world.create_plan(TRUSTED);
    let run = world
        .execute(&plan)
        .exits(1)
        .reports_state("execute/errored");
    run.prints(&format!("agents plan errors {plan}"));
    assert_eq!(world.error_kinds(&plan), ["transient_network"; 5]);
    world
        .resume(&plan)
        .succeeded()
        .reports_state("execute/complete");
    assert_eq!(world.sandbox_files(&plan)["log"], "0 1\n2\n");
    assert_eq!(world.events_of_kind(&plan, "tool_completed").len(), 4);
}

#[test]
fn an_exhausted_script_fails_without_retry() {
    let world = TestWorld::new();
    world.define_llm_actor("coder", &turn(&[("file-list", "{}")]), "");
    world.define_llm_job("builtin/direct", "local/coder", "");
    let plan = world.create_plan(TRUSTED);
    let run = world
        .execute(&plan)
        .exits(1)
        .reports_state("execute/errored");
    run.prints("has 1 turn and was asked for turn 2");
    assert_eq!(world.error_kinds(&plan), ["model_output"]);
    assert_eq!(world.model_call_states(&plan), ["answered", "failed"]);
}

#[test]
fn a_circuit_breaker_probe_does_not_wait_for_itself() {
    let world = TestWorld::new();
    let failing = format!("  - fault: {{kind: {}}}\n", FaultKind::ServerError).repeat(3);
    world.define_llm_actor("coder", &[failing, worker_turns().concat()].concat(), "");
    // A probe that waited for itself would wait forever; the time budget would then end the plan.
    world.define_llm_job("builtin/direct", "local/coder", "budget: {wall: 75}\n");
    let plan = world.create_plan(TRUSTED);
    let mut follower = Follower::start(&world, &plan);
    let child = world.start(&["plan", "execute", &plan, "--format", "json"]);
    (0..3).for_each(|_| drop(follower.wait_for("model_failed")));
    // The circuit breaker is open now. A prompt sent meanwhile must be in the probe request, which
    // has to be built again for it.
    world
        .run_json(&["plan", "prompt", &plan, "Mind the gap"])
        .succeeded();
    let run = AgentsRun::from_output(child.wait_with_output().unwrap());
    run.succeeded().reports_state("execute/complete");
    let mut ends = vec!["failed"; 3];
    ends.extend(["answered"; 3]);
    assert_eq!(world.model_call_states(&plan), ends);
    assert_eq!(world.error_kinds(&plan), ["transient_network"; 3]);
    let said: Vec<usize> = world
        .model_calls(&plan)
        .iter()
        .map(|it| {
            messages_text(it)
                .matches("Message from the user: Mind the gap")
                .count()
        })
        .collect();
    assert_eq!(said, [0, 0, 0, 1, 1, 1]);
    assert_eq!(world.sandbox_files(&plan)["log"], "0 1\n2\n");
}

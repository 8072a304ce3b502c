//! Report 7333 from the command line: when several services record errors for a new plan at once,
//! all of them are listed, in one order.

use std::sync::Barrier;

use cleveragents_domain::ErrorCategory;
use cleveragents_domain::id::PlanId;
use cleveragents_engine::error_history::{ErrorRecovery, NewErrorRecord};
use serde_json::Value;

use crate::concurrent_commands::{ConcurrencyFixture, on_both_engines};
use crate::decision_fixture::bootstrap;

on_both_engines! {
    concurrently_recorded_errors_are_listed,
}

const RECORDERS: usize = 8;
const ERRORS_PER_RECORDER: usize = 5;

/// Each recorder opens the data directory separately, as a process does. It records its own errors
/// and one error that all share.
fn concurrently_recorded_errors_are_listed(fixture: &ConcurrencyFixture) {
    fixture.environment.write("work/lint.yaml", ACTION);
    fixture.run_json(&["action", "create", "--config", "lint.yaml"]);
    let made = fixture.run_json(&["plan", "use", "local/lint", "local/shop"]);
    let plan = made["plan_id"].as_str().unwrap();
    let id: PlanId = plan.parse().unwrap();
    let start = Barrier::new(RECORDERS + 1);
    std::thread::scope(|scope| {
        for recorder in 0..RECORDERS {
            let start = &start;
            scope.spawn(move || {
                let bootstrap = bootstrap(&fixture.environment);
                let app = bootstrap.open().unwrap();
                start.wait();
                for number in 0..ERRORS_PER_RECORDER {
                    for message in [format!("{recorder}.{number}"), "everybody's".to_owned()] {
                        let recovery = ErrorRecovery::new(app.store().clone(), app.ids());
                        let recorded = recovery.record(id, new_error_record(message), "eva");
                        app.block_on(recorded).unwrap();
                    }
                }
            });
        }
        start.wait();
        // A concurrent reader sees a complete prefix of the order.
        for _ in 0..3 {
            assert_in_order(&fixture.run_json(&["plan", "errors", plan]));
        }
    });
    let found = fixture.run_json(&["plan", "errors", plan]);
    assert_in_order(&found);
    assert_eq!(
        found["summary"]["total"],
        RECORDERS * ERRORS_PER_RECORDER + 1
    );
    assert_eq!(
        found["summary"]["occurrences"],
        RECORDERS * ERRORS_PER_RECORDER * 2
    );
    let kinds = fixture.event_kinds(plan);
    let recorded_count = kinds.iter().filter(|it| *it == "error_recorded").count();
    assert_eq!(recorded_count, RECORDERS * ERRORS_PER_RECORDER * 2);
}

#[track_caller]
fn assert_in_order(found: &Value) {
    let errors = found["errors"].as_array().unwrap();
    let places: Vec<i64> = errors
        .iter()
        .map(|error| error["sequence"].as_i64().unwrap())
        .collect();
    assert_eq!(places, (1..=errors.len() as i64).collect::<Vec<_>>());
    let counted: u64 = errors
        .iter()
        .map(|error| error["occurrences"].as_u64().unwrap())
        .sum();
    assert_eq!(found["summary"]["occurrences"], counted);
}

fn new_error_record(message: String) -> NewErrorRecord {
    NewErrorRecord {
        category: ErrorCategory::Timeout,
        message,
        step: Some(1),
        cause_chain: Vec::new(),
    }
}

const ACTION: &str = "\
name: local/lint
description: Lint the shop
strategy_actor: builtin/planner
execution_actor: builtin/worker
definition_of_done: no warnings are left
";

//! Report 7333 as the command shows it: all errors that several processes' worth of services
//! record for a new plan at once are listed, in one order.

use std::sync::Barrier;

use cleveragents_domain::ErrorCategory;
use cleveragents_domain::id::PlanId;
use cleveragents_engine::recovery::Trouble;
use serde_json::Value;

use crate::seeds::{Stage, on_both_engines};
use crate::story::wiring;

on_both_engines! {
    all_that_is_recorded_at_once_is_listed,
}

const RECORDERS: usize = 8;
const EACH: usize = 5;

/// Each recorder opens the data directory by itself, as a process does, and records its own
/// errors and one that everybody has.
fn all_that_is_recorded_at_once_is_listed(stage: &Stage) {
    stage.environment.write("work/lint.yaml", ACTION);
    stage.ask(&["action", "create", "--config", "lint.yaml"]);
    let made = stage.ask(&["plan", "use", "local/lint", "local/shop"]);
    let plan = made["plan_id"].as_str().unwrap();
    let id: PlanId = plan.parse().unwrap();
    let start = Barrier::new(RECORDERS + 1);
    std::thread::scope(|scope| {
        for recorder in 0..RECORDERS {
            let start = &start;
            scope.spawn(move || {
                let wiring = wiring(&stage.environment);
                let wired = wiring.open().unwrap();
                start.wait();
                for number in 0..EACH {
                    for message in [format!("{recorder}.{number}"), "everybody's".to_owned()] {
                        let recovery = wired.recovery();
                        let recorded = recovery.record(id, trouble(message), "eva");
                        wired.wait(recorded).unwrap();
                    }
                }
            });
        }
        start.wait();
        // Who looks meanwhile sees a beginning of the order, whole.
        for _ in 0..3 {
            in_order(&stage.ask(&["plan", "errors", plan]));
        }
    });
    let found = stage.ask(&["plan", "errors", plan]);
    in_order(&found);
    assert_eq!(found["summary"]["total"], RECORDERS * EACH + 1);
    assert_eq!(found["summary"]["occurrences"], RECORDERS * EACH * 2);
    let kinds = stage.story(plan);
    let told = kinds.iter().filter(|it| *it == "error_recorded").count();
    assert_eq!(told, RECORDERS * EACH * 2);
}

#[track_caller]
fn in_order(found: &Value) {
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

fn trouble(message: String) -> Trouble {
    Trouble {
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

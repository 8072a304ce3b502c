//! Measures commands on plans with a hundred and with ten thousand plans in the database.
//!
//! Both databases are measured alternately in one run, so that a slow minute of the machine affects
//! both. Medians and their ratio are shown; a ratio of 1 means no growth. `--agents FILE` is the
//! program to start, `--json FILE` the result file. No thresholds are checked.

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a bench prints its table, and one that cannot measure must fail"
)]

mod plan_database;
mod timing;

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cleveragents_integration_tests::{Backend, environment};
use serde_json::{Value, json};

use plan_database::{BenchCall, PlanDatabase};
use timing::{TimingSummary, format_row};

const FEW: usize = 100;
const MANY: usize = 10_000;
/// The number of measurements per call.
const TURNS: usize = 41;
const RULES: usize = 10_000;
/// The number of measurements of using an action with many rules.
const RULE_TURNS: usize = 5;
/// The number of initial warm-up measurements.
const WARM_UP: usize = 3;

/// Whether a new process or the in-process engine makes the call.
#[derive(Debug, Clone, Copy)]
enum Invocation {
    Process,
    Engine,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let value = |flag: &str| {
        let at = words.iter().position(|word| word == flag)?;
        words.get(at + 1).map(PathBuf::from)
    };
    let agents = value("--agents").unwrap_or_else(|| PathBuf::from("target/release/agents"));
    let json = value("--json").unwrap_or_else(|| PathBuf::from("target/bench/plans.json"));
    let mut result = json!({
        "sqlite": measure(Backend::Sqlite, &agents),
        "sqlite_rules": measure_rules(Backend::Sqlite),
    });
    if environment::has_postgres() {
        result["postgres"] = measure(Backend::Postgres, &agents);
        result["postgres_rules"] = measure_rules(Backend::Postgres);
    }
    std::fs::create_dir_all(json.parent().expect("a folder")).expect("a folder");
    let mut file = File::create(&json).expect("the result's file");
    let text = serde_json::to_string_pretty(&result).expect("JSON");
    file.write_all(text.as_bytes()).expect("the result is kept");
    ExitCode::SUCCESS
}

fn measure(backend: Backend, agents: &Path) -> Value {
    let few = PlanDatabase::with_plans(backend, FEW);
    let many = PlanDatabase::with_plans(backend, MANY);
    println!("\n{backend:?}: medians of {TURNS} in milliseconds, {FEW} and {MANY} plans in turn");
    println!("{:<42} {:>9} {:>9} {:>7}", "", FEW, MANY, "ratio");
    let mut rows = Vec::new();
    for call in BenchCall::ALL {
        for by in [Invocation::Process, Invocation::Engine] {
            let (few, many) = measure_alternately(&few, &many, |hall| match by {
                Invocation::Process => hall.time_process(agents, call),
                Invocation::Engine => hall.time_engine(call),
            });
            let name = format!("{} ({})", call.name(), invocation_name(by));
            println!("{}", format_row(&name, &few, &many));
            rows.push(json!({
                "call": call.name(),
                "by": invocation_name(by),
                "few": few.json(),
                "many": many.json(),
                "ratio": many.median / few.median,
            }));
        }
    }
    Value::Array(rows)
}

/// Measures using an action with a growing number of rules; each rule becomes a decision of the
/// plan.
fn measure_rules(backend: Backend) -> Value {
    let plans = PlanDatabase::with_plans(backend, 1);
    let mut rows = Vec::new();
    for count in [RULES / 10, RULES] {
        plans.add_rules(count);
        let times = (0..RULE_TURNS)
            .map(|_| plans.time_engine(BenchCall::Use))
            .collect();
        let times = TimingSummary::from_times(times);
        let median = times.median;
        println!("{backend:?}: plan use with {count} rules (engine): {median:.0} ms");
        rows.push(json!({ "rules": count, "times": times.json() }));
    }
    Value::Array(rows)
}

fn invocation_name(by: Invocation) -> &'static str {
    match by {
        Invocation::Process => "process",
        Invocation::Engine => "engine",
    }
}

/// Measures both databases alternately.
fn measure_alternately(
    few: &PlanDatabase,
    many: &PlanDatabase,
    time: impl Fn(&PlanDatabase) -> f64,
) -> (TimingSummary, TimingSummary) {
    let (mut of_few, mut of_many) = (Vec::new(), Vec::new());
    for turn in 0..WARM_UP + TURNS {
        let times = (time(few), time(many));
        if turn >= WARM_UP {
            of_few.push(times.0);
            of_many.push(times.1);
        }
    }
    (
        TimingSummary::from_times(of_few),
        TimingSummary::from_times(of_many),
    )
}

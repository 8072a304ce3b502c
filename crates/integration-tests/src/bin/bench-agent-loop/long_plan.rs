//! One plan with a thousand tool calls: checks whether later calls cost more than earlier ones.

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use crate::bench_environment::BenchEnvironment;
use crate::observed_models::{ObservedModels, UsageObserver, UsageSample};
use crate::parallel_plans::{RecordCounts, check_records, runtime};

/// The number of calls per answer: the last one reads, the others write.
const CALLS: usize = 5;
const TURNS: usize = 200;
/// The number of files, which are written repeatedly.
const FILES: usize = 100;
/// The number of runs.
const RUNS: usize = 3;

/// After how many calls a sample is taken; CPU time is averaged over the turns around it.
const POINTS: [(usize, RangeInclusive<usize>); 3] =
    [(10, 1..=4), (100, 19..=22), (1000, 197..=200)];

pub(crate) fn measure() -> Value {
    let runs: Vec<Vec<UsageSample>> = (0..RUNS).map(|_| runtime().block_on(run())).collect();
    println!(
        "\none plan of {} tool calls, {CALLS} in an answer; medians of {RUNS}",
        CALLS * TURNS
    );
    println!(
        "{:>8} {:>18} {:>10} {:>14} {:>12} {:>16}",
        "at call", "own CPU a call", "peak", "database", "blobs", "stored a call"
    );
    let mut rows = Vec::new();
    let mut last = (0, 0);
    for (calls, turns) in POINTS {
        let each: Vec<f64> = runs
            .iter()
            .map(|it| cpu_per_call(it, turns.clone()))
            .collect();
        let cpu = median(each);
        // Only the first run has a peak that no earlier run raised.
        let sample = runs[0][calls / CALLS];
        let stored = sample.stored.expect("it was looked at");
        let all = stored.database + stored.blobs;
        let each = (all - last.1) as f64 / (calls - last.0) as f64;
        last = (calls, all);
        println!(
            "{calls:>8} {cpu:>15.2} ms {:>6.1} MiB {:>8} bytes {:>6} bytes {each:>10.0} bytes",
            sample.peak_mib, stored.database, stored.blobs
        );
        rows.push(json!({
            "calls": calls,
            "own_cpu_ms_per_call": cpu,
            "peak_mib": sample.peak_mib,
            "database_bytes": stored.database,
            "blob_bytes": stored.blobs,
            "stored_bytes_per_call_since": each,
        }));
    }
    Value::Array(rows)
}

/// Average milliseconds of own CPU time per call over these turns.
fn cpu_per_call(samples: &[UsageSample], turns: RangeInclusive<usize>) -> f64 {
    let costs: Vec<f64> = turns
        .map(|turn| samples[turn].cpu_before_ms - samples[turn - 1].cpu_after_ms)
        .collect();
    costs.iter().sum::<f64>() / (costs.len() * CALLS) as f64
}

async fn run() -> Vec<UsageSample> {
    let environment = BenchEnvironment::open(&script()).await;
    let plan = environment.create_plan().await;
    let samples = Arc::new(Mutex::new(Vec::new()));
    let observer = UsageObserver {
        database: Arc::clone(&environment.opened.database),
        blobs: environment.test_db.folder().join("blobs"),
        turns: POINTS
            .iter()
            .map(|(calls, _)| (calls / CALLS) as u64)
            .collect(),
        samples: Arc::clone(&samples),
    };
    let models = Arc::new(ObservedModels {
        models: environment.scripted_models(),
        observer,
    });
    let executor = environment.executor(models, 1);
    let executed = executor.execute(plan, "bench").await;
    executed.expect("it is executed");
    let calls = CALLS * TURNS;
    let expected = RecordCounts {
        calls: calls + 1,
        answers: TURNS + 1,
        changes: calls - TURNS,
    };
    let lost = check_records(&environment, plan, expected).await;
    assert!(lost.is_empty(), "{lost:?}");
    let samples = samples.lock().unwrap_or_else(PoisonError::into_inner);
    samples.clone()
}

/// The script of the model. It states its usage, because computing it from the whole conversation
/// each time would add the model's cost to the measurement.
fn script() -> String {
    let mut text = String::from("turns:\n");
    for turn in 0..TURNS {
        text.push_str("  - usage: {input_tokens: 100, output_tokens: 100}\n    tool_calls:\n");
        let path = |slot: usize| format!("notes/{}.txt", (turn * (CALLS - 1) + slot) % FILES);
        for slot in 0..CALLS - 1 {
            let path = path(slot);
            text.push_str(&format!(
                "      - {{tool: builtin/file-write, input: {{path: {path}, content: \"turn {turn}, call {slot}\\n\"}}}}\n"
            ));
        }
        let path = path(0);
        text.push_str(&format!(
            "      - {{tool: builtin/file-read, input: {{path: {path}}}}}\n"
        ));
    }
    text.push_str("  - tool_calls: [{tool: builtin/finish, input: {summary: Written}}]\n");
    text
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

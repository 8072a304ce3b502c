//! Measures the program's own cost of plans with models.
//!
//! The models are scripts with known delays. `parallel` runs a hundred plans concurrently in this
//! process and compares the wall time with the delays of the scripts; `long` runs one plan with a
//! thousand tool calls and compares its beginning with its end. `--part parallel` or `long`
//! measures that part only, `--at-once N` the parallel plans with that concurrency only, and
//! `--json FILE` is the result file. No thresholds are checked, but a lost record fails the run.

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a bench prints its table, and one that cannot measure must fail"
)]

mod bench_environment;
mod long_plan;
mod observed_models;
mod parallel_plans;
mod usage;

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;

/// The maximum number of running plans: the default, the maximum setting, and all of them.
const CONCURRENCIES: [u32; 3] = [4, 64, 100];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let value = |flag: &str| {
        let at = words.iter().position(|word| word == flag)?;
        words.get(at + 1).map(PathBuf::from)
    };
    let json = value("--json").unwrap_or_else(|| PathBuf::from("target/bench/agent-loop.json"));
    let part = value("--part");
    let is_wanted = |name: &str| part.as_ref().is_none_or(|part| part.as_os_str() == name);
    let mut result = json!({});
    // The part that needs the least memory runs first, because a process's peak never falls.
    if is_wanted("long") {
        result["long"] = long_plan::measure();
    }
    if is_wanted("parallel") {
        parallel_plans::print_header();
        let at_once = value("--at-once").map(|text| {
            let number = text.to_str().and_then(|text| text.parse::<u32>().ok());
            vec![number.expect("a number of plans")]
        });
        for concurrency in at_once.unwrap_or_else(|| CONCURRENCIES.to_vec()) {
            result["parallel"][concurrency.to_string()] = parallel_plans::measure(concurrency);
        }
    }
    std::fs::create_dir_all(json.parent().expect("a folder")).expect("a folder");
    let mut file = File::create(&json).expect("the result's file");
    let text = serde_json::to_string_pretty(&result).expect("JSON");
    file.write_all(text.as_bytes()).expect("the result is kept");
    ExitCode::SUCCESS
}

//! Measures the cost of sandboxes compared to git, and the total cost of a tool call.
//!
//! This program and git are measured alternately in one run, each first in every other turn, so
//! that a slow minute of the machine affects both. Medians are shown, and the median of the ratios.
//! `--agents FILE` is the program whose tool calls are counted, `--json FILE` the result file,
//! `--files N` measures one size only, `--turns N` sets the number of turns, `--part make`, `work`
//! or `calls` measures that part only. `--baseline FILE` compares the program with an earlier one
//! instead (`--part starts` or `applies`). No thresholds are checked.

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a bench prints its table, and one that cannot measure must fail"
)]

mod baseline;
mod bench_repository;
mod calls;
mod program;

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use cleveragents_ports::sandbox::{Sandboxes, TouchedPaths};
use cleveragents_ports::stop::StopSignal;
use serde_json::{Value, json};

use bench_repository::BenchRepository;

const SIZES: [usize; 2] = [300, 20_000];
/// The default number of turns.
const TURNS: usize = 11;
/// The number of sandboxes created concurrently.
const PARALLEL_SANDBOXES: usize = 16;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let value = |flag: &str| {
        let at = words.iter().position(|word| word == flag)?;
        words.get(at + 1).map(PathBuf::from)
    };
    let agents = value("--agents").unwrap_or_else(|| PathBuf::from("target/release/agents"));
    let json = value("--json").unwrap_or_else(|| PathBuf::from("target/bench/sandboxes.json"));
    let number = |flag: &str| {
        let value = value(flag)?;
        let number = value.to_str()?.parse::<usize>();
        Some(number.expect("a number"))
    };
    let turns = number("--turns").unwrap_or(TURNS);
    let sizes = number("--files").map_or(SIZES.to_vec(), |size| vec![size]);
    let part = value("--part");
    let is_wanted = |name: &str| part.as_ref().is_none_or(|part| part.as_os_str() == name);
    let mut result = json!({});
    if let Some(baseline) = value("--baseline") {
        // The programs are run from other folders.
        let real = |program: &Path| program.canonicalize().expect("a program");
        let (agents, baseline) = (real(&agents), real(&baseline));
        println!("medians of {turns} in milliseconds, each first in every other turn");
        println!(
            "{:<44} {:>9} {:>9} {:>7}",
            "", "agents", "baseline", "ratio"
        );
        if is_wanted("starts") {
            result["starts"] = baseline::measure_starts(&agents, &baseline, turns);
        }
        if is_wanted("applies") {
            result["applies"] = baseline::measure_applies(&agents, &baseline, turns);
        }
        write_results(&json, &result);
        return ExitCode::SUCCESS;
    }
    for size in sizes {
        if !is_wanted("make") && !is_wanted("work") {
            break;
        }
        result[size.to_string()] = measure(size, turns, &is_wanted);
    }
    if is_wanted("calls") {
        result["tool_call"] = calls::measure(&agents);
    }
    write_results(&json, &result);
    ExitCode::SUCCESS
}

fn write_results(path: &Path, result: &Value) {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    let mut file = File::create(path).expect("the result's file");
    let text = serde_json::to_string_pretty(result).expect("JSON");
    file.write_all(text.as_bytes()).expect("the result is kept");
}

fn measure(size: usize, turns: usize, is_wanted: &dyn Fn(&str) -> bool) -> Value {
    let repository = BenchRepository::new(size);
    println!("\n{size} files: medians of {turns} in milliseconds, ours and git's in turn");
    println!("{:<38} {:>9} {:>9} {:>7}", "", "agents", "git", "ratio");
    let mut result = json!({});
    if is_wanted("make") {
        result["make"] = measure_alternately(
            "make a sandbox | worktree add",
            turns,
            &mut || repository.time_create(),
            &mut || repository.time_worktree(),
        );
        let parallel = repository.time_parallel_creates(PARALLEL_SANDBOXES);
        println!("{PARALLEL_SANDBOXES} sandboxes created at once: {parallel:.1} ms");
        result["parallel_ms"] = json!(parallel);
    }
    if is_wanted("work") {
        measure_sandbox(&repository, turns, &mut result);
    }
    result
}

/// Measures captures and diffs in one sandbox.
fn measure_sandbox(repository: &BenchRepository, turns: usize, result: &mut Value) {
    let (mut sandbox, mut tree) = repository.open();
    let mut number = 0;
    let mut known = || {
        number += 1;
        let path = repository.edit(sandbox.tree(), number);
        time(|| {
            let touched = TouchedPaths::Paths(vec![path.clone()]);
            tree = sandbox
                .capture(&tree, &touched, &StopSignal::new())
                .expect("captured")
                .tree;
        })
    };
    let mut edits = 0;
    let mut git = || {
        edits += 1;
        repository.edit(&repository.checkout, edits);
        time(|| repository.add_and_write_tree())
    };
    result["capture_known"] = measure_alternately(
        "capture a known path | add, write-tree",
        turns,
        &mut known,
        &mut git,
    );
    let base = sandbox.base().clone();
    let mut number = 1_000;
    let mut walked = || {
        number += 1;
        repository.edit(sandbox.tree(), number);
        time(|| {
            tree = sandbox
                .capture(&tree, &TouchedPaths::Unknown, &StopSignal::new())
                .expect("captured")
                .tree
        })
    };
    let name = "capture after a command | the same";
    result["capture_walk"] = measure_alternately(name, turns, &mut walked, &mut git);
    result["diff"] = measure_alternately(
        "diff | git diff",
        turns,
        &mut || {
            time(|| {
                let diff = sandbox.diff(&base, &tree, &[], &StopSignal::new());
                diff.expect("a diff");
            })
        },
        &mut || time(|| repository.diff()),
    );
    repository
        .sandboxes
        .discard(sandbox.id())
        .expect("discarded");
}

/// Milliseconds that `work` took.
pub(crate) fn time(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_secs_f64() * 1000.0
}

fn measure_alternately(
    name: &str,
    turns: usize,
    ours: &mut dyn FnMut() -> f64,
    theirs: &mut dyn FnMut() -> f64,
) -> Value {
    let (mut our, mut their, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    // The first turn is a warm-up.
    for turn in 0..=turns {
        let (one, other) = match turn % 2 {
            0 => {
                let one = ours();
                (one, theirs())
            }
            _ => {
                let other = theirs();
                (ours(), other)
            }
        };
        if turn > 0 {
            our.push(one);
            their.push(other);
            ratios.push(one / other);
        }
    }
    let (our, their, ratio) = (median(our), median(their), median(ratios));
    println!("{name:<38} {our:>9.2} {their:>9.2} {ratio:>7.2}");
    json!({ "agents_ms": our, "git_ms": their, "ratio": ratio })
}

pub(crate) fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

//! What sandboxes cost beside git itself, and what a tool call costs in all.
//!
//! Ours and git's way are measured turn by turn in one run, so that a slow minute of the machine
//! hits both; medians are shown, and their ratio. `--agents FILE` is the program whose tool calls
//! are counted, `--json FILE` says where the results go. Nothing here judges.

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a bench prints its table, and one that cannot measure must fail"
)]

mod calls;
mod ground;

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use cleveragents_engine::ports::sandbox::{Sandboxes, Touched};
use serde_json::{Value, json};

use ground::Ground;

const SIZES: [usize; 2] = [300, 20_000];
/// How often each is measured.
const TURNS: usize = 11;
/// How many sandboxes are made at once.
const CROWD: usize = 16;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let value = |flag: &str| {
        let at = words.iter().position(|word| word == flag)?;
        words.get(at + 1).map(PathBuf::from)
    };
    let agents = value("--agents").unwrap_or_else(|| PathBuf::from("target/release/agents"));
    let json = value("--json").unwrap_or_else(|| PathBuf::from("target/bench/sandboxes.json"));
    let mut result = json!({});
    for size in SIZES {
        result[size.to_string()] = measure(size);
    }
    result["tool_call"] = calls::measure(&agents);
    std::fs::create_dir_all(json.parent().expect("a folder")).expect("a folder");
    let mut file = File::create(&json).expect("the result's file");
    let text = serde_json::to_string_pretty(&result).expect("JSON");
    file.write_all(text.as_bytes()).expect("the result is kept");
    ExitCode::SUCCESS
}

fn measure(size: usize) -> Value {
    let ground = Ground::new(size);
    println!("\n{size} files: medians of {TURNS} in milliseconds, ours and git's in turn");
    println!("{:<38} {:>9} {:>9} {:>7}", "", "agents", "git", "ratio");
    let made = in_turn(
        "make a sandbox | worktree add",
        || ground.make(),
        || ground.worktree(),
    );
    let crowd = ground.crowd(CROWD);
    println!("{CROWD} sandboxes made at once: {crowd:.1} ms");
    let (mut sandbox, mut tree) = ground.open();
    let mut number = 0;
    let mut known = || {
        number += 1;
        let path = ground.edit(sandbox.tree(), number);
        time(|| {
            let touched = Touched::Paths(vec![path.clone()]);
            tree = sandbox.capture(&tree, &touched).expect("captured").tree;
        })
    };
    let mut edits = 0;
    let mut git = || {
        edits += 1;
        ground.edit(&ground.checkout, edits);
        time(|| ground.add_and_write_tree())
    };
    let known = in_turn(
        "capture a known path | add, write-tree",
        &mut known,
        &mut git,
    );
    let base = sandbox.base().clone();
    let mut number = 1_000;
    let mut walked = || {
        number += 1;
        ground.edit(sandbox.tree(), number);
        time(|| {
            tree = sandbox
                .capture(&tree, &Touched::Unknown)
                .expect("captured")
                .tree
        })
    };
    let walked = in_turn("capture after a command | the same", &mut walked, &mut git);
    let diffed = in_turn(
        "diff | git diff",
        || {
            time(|| {
                sandbox.diff(&base, &tree, &[]).expect("a diff");
            })
        },
        || time(|| ground.diff()),
    );
    ground.sandboxes.discard(sandbox.id()).expect("discarded");
    json!({
        "make": made, "crowd_ms": crowd, "capture_known": known, "capture_walk": walked, "diff": diffed,
    })
}

/// Milliseconds that `work` took.
pub(crate) fn time(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_secs_f64() * 1000.0
}

fn in_turn(name: &str, mut ours: impl FnMut() -> f64, mut theirs: impl FnMut() -> f64) -> Value {
    let (mut our, mut their) = (Vec::new(), Vec::new());
    // The first turn only warms up.
    for turn in 0..=TURNS {
        let (one, other) = (ours(), theirs());
        if turn > 0 {
            our.push(one);
            their.push(other);
        }
    }
    let (our, their) = (median(our), median(their));
    let ratio = our / their;
    println!("{name:<38} {our:>9.2} {their:>9.2} {ratio:>7.2}");
    json!({ "agents_ms": our, "git_ms": their, "ratio": ratio })
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

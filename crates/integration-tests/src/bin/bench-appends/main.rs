//! Measures acknowledged durable appends per second, next to a bare loop of one row per commit.
//!
//! Intervals of the candidates alternate in one run, so that a slow minute of the machine affects
//! all of them; medians are shown. `--json FILE` is the result file. No thresholds are checked.

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a bench prints its table, and one that cannot measure must fail"
)]

mod disk;
mod load;
mod shares;

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use cleveragents_integration_tests::{Backend, TestDatabase};
use serde_json::{Value, json};

use load::LoadSample;

const SPAN: Duration = Duration::from_millis(1500);
const ROUNDS: usize = 5;
const WRITERS: [usize; 3] = [1, 8, 64];

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1).peekable();
    if words.next_if_eq("hammer").is_some() {
        return cleveragents_integration_tests::hammer::run(words);
    }
    let words: Vec<String> = words.collect();
    let json = match &words[..] {
        [flag, path] if flag == "--json" => PathBuf::from(path),
        _ => Path::new("target/bench/appends.json").to_owned(),
    };
    let result = measure();
    std::fs::create_dir_all(json.parent().expect("a folder")).expect("a folder");
    let mut file = File::create(&json).expect("the result's file");
    let text = serde_json::to_string_pretty(&result).expect("JSON");
    file.write_all(text.as_bytes()).expect("the result is kept");
    ExitCode::SUCCESS
}

fn measure() -> Value {
    let disk = disk::measure();
    println!(
        "4 KiB on this disk (medians): fdatasync {:.0} µs, fsync {:.0} µs overwriting; \
         fdatasync {:.0} µs growing a file",
        disk.overwrite, disk.overwrite_fsync, disk.growing
    );
    let mut result = json!({
        "sync_micros": {
            "fdatasync_overwriting": disk.overwrite,
            "fsync_overwriting": disk.overwrite_fsync,
            "fdatasync_growing": disk.growing,
        },
        "sqlite": sqlite(),
        "sqlite_eight_processes": shares::measure(Backend::Sqlite),
    });
    if cleveragents_integration_tests::environment::has_postgres() {
        result["postgres"] = postgres();
        result["postgres_eight_processes"] = shares::measure(Backend::Postgres);
    }
    result
}

fn sqlite() -> Value {
    let bare_folder = tempfile::tempdir().expect("a folder");
    let bare =
        cleveragents_integration_tests::bare::BareLoop::create(&bare_folder.path().join("bare.db"));
    let test_db = TestDatabase::new(Backend::Sqlite);
    let opened = test_db.open();
    let mut bare_slices = Vec::new();
    let mut slices: Vec<Vec<LoadSample>> = WRITERS.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        bare_slices.push(load::run_bare_loop(&bare, SPAN));
        for (writers, slices) in WRITERS.iter().zip(&mut slices) {
            slices.push(load::run_store(&opened.store, *writers, SPAN));
        }
    }
    let peer = LoadSample::median(bare_slices);
    println!("\nSQLite, {ROUNDS} slices of {SPAN:?} each");
    heading();
    row("bare loop", &peer, peer.rate);
    let ours = rows(slices, peer.rate);
    json!({"bare": peer.json(peer.rate), "ours": ours})
}

fn postgres() -> Value {
    let test_db = TestDatabase::new(Backend::Postgres);
    let opened = test_db.open();
    let mut slices: Vec<Vec<LoadSample>> = WRITERS.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        for (writers, slices) in WRITERS.iter().zip(&mut slices) {
            slices.push(load::run_store(&opened.store, *writers, SPAN));
        }
    }
    println!("\nPostgreSQL, ratios to one writer");
    heading();
    let mut slices = slices.into_iter();
    let one = LoadSample::median(slices.next().expect("one writer"));
    row("1 writer", &one, one.rate);
    let mut ours = vec![one.json(one.rate)];
    for (writers, slices) in WRITERS.iter().skip(1).zip(slices) {
        let slice = LoadSample::median(slices);
        row(&format!("{writers} writers"), &slice, one.rate);
        ours.push(slice.json(one.rate));
    }
    json!({"ours": ours})
}

fn rows(slices: Vec<Vec<LoadSample>>, peer: f64) -> Vec<Value> {
    let medians = slices.into_iter().map(LoadSample::median);
    let rows = WRITERS.iter().zip(medians).map(|(writers, slice)| {
        row(&format!("{writers} writers"), &slice, peer);
        let mut value = slice.json(peer);
        value["writers"] = json!(writers);
        value
    });
    rows.collect()
}

fn heading() {
    println!(
        "{:<12} {:>10} {:>7} {:>9} {:>9} {:>8} {:>8} {:>12} {:>12}",
        "",
        "appends/s",
        "ratio",
        "p50 µs",
        "p99 µs",
        "CPU µs",
        "user µs",
        "bytes/append",
        "calls/append"
    );
}

fn row(name: &str, slice: &LoadSample, peer: f64) {
    println!(
        "{name:<12} {:>10.0} {:>7.2} {:>9.0} {:>9.0} {:>8.1} {:>8.1} {:>12.0} {:>12.1}",
        slice.rate,
        slice.rate / peer,
        slice.p50,
        slice.p99,
        slice.cpu,
        slice.user,
        slice.bytes,
        slice.writes
    );
}

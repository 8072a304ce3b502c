//! A hundred concurrent plans in one process, each with a model: all finish, and no record is lost.
//! The benchmark, whose code runs here, measures the time.

use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

/// The maximum memory for all of them, in MiB.
const MEMORY: f64 = 200.0;

#[test]
#[expect(clippy::disallowed_methods, reason = "the program under test")]
fn a_hundred_concurrent_plans_lose_nothing() {
    let folder = TempDir::new().unwrap();
    let result = folder.path().join("agent-loop.json");
    let mut bench = Command::new(env!("CARGO_BIN_EXE_bench-agent-loop"));
    bench.args(["--part", "parallel", "--at-once", "16", "--json"]);
    let output = bench.arg(&result).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = std::fs::read_to_string(&result).unwrap();
    let result: Value = serde_json::from_str(&text).unwrap();
    let parallel = &result["parallel"]["16"];
    assert_eq!(parallel["lost"], 0, "{result}");
    assert!(parallel["peak_mib"].as_f64().unwrap() <= MEMORY, "{result}");
}

//! `cargo xtask bench`: measurements next to a baseline in the same run, printed and kept in
//! `target/bench`.
//!
//! `startup` and `build` are measured here, from outside; any other name is a program `bench-NAME`
//! of the `integration-tests` crate. Some of them are given the path of the release program. No
//! thresholds are checked.

pub mod build;
pub mod peak;
pub mod startup;

use std::ffi::OsStr;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::cluster::PostgresCluster;
use crate::{environment, files, output, process};

const DEFAULT: [&str; 5] = ["startup", "appends", "plans", "sandboxes", "agent-loop"];

/// Runs the named benchmarks one after the other.
pub fn run(arguments: &[String]) -> Result<()> {
    if let Some(option) = arguments.iter().find(|argument| argument.starts_with('-')) {
        bail!("unknown option `{option}`; usage: cargo xtask bench [NAME…]");
    }
    let names: Vec<&str> = match arguments {
        [] => DEFAULT.to_vec(),
        _ => arguments.iter().map(String::as_str).collect(),
    };
    for name in names {
        output::heading(&format!("bench {name}"));
        match name {
            "startup" => write_results(name, &startup::measure()?)?,
            "build" => write_results(name, &build::measure()?)?,
            "plans" | "sandboxes" => {
                let agents = startup::build()?;
                run_bench_program(name, &["--agents".as_ref(), agents.as_os_str()])?;
            }
            _ => run_bench_program(name, &[])?,
        }
        output::line(&format!("kept in {}", result_path(name).display()));
    }
    Ok(())
}

/// A program of `integration-tests` prints for people and writes its results to the given file.
fn run_bench_program(name: &str, more: &[&OsStr]) -> Result<()> {
    let cluster = PostgresCluster::start()?;
    let result = result_path(name);
    std::fs::create_dir_all(result.parent().context("a result lies in a folder")?)?;
    process::run(
        process::cargo(&environment::workspace_root())
            .args([
                "run",
                "--release",
                "--locked",
                "-p",
                "cleveragents-integration-tests",
            ])
            .args(["--bin", &format!("bench-{name}"), "--", "--json"])
            .arg(&result)
            .args(more)
            .envs(cluster.variables()),
    )
}

fn write_results(name: &str, result: &serde_json::Value) -> Result<()> {
    let text = serde_json::to_string_pretty(result)?;
    files::write(&result_path(name), &(text + "\n"))
}

fn result_path(name: &str) -> PathBuf {
    let folder = environment::workspace_root().join("target/bench");
    folder.join(format!("{name}.json"))
}

//! The time until `agents version` answers, next to `git --version` in the same run.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::peak;
use crate::{environment, output, process, table};

const RUNS: usize = 200;

/// Builds the release program and times both alternately, so that both run under the same
/// conditions.
pub fn measure() -> Result<Value> {
    let agents = build()?;
    let agents = agents.as_path();
    let git = Path::new("git");
    let mut ours = Vec::with_capacity(RUNS);
    let mut theirs = Vec::with_capacity(RUNS);
    time(agents, "version")?;
    time(git, "--version")?;
    for _ in 0..RUNS {
        ours.push(time(agents, "version")?);
        theirs.push(time(git, "--version")?);
    }
    let (ours, theirs) = (
        TimingSpread::from_times(ours),
        TimingSpread::from_times(theirs),
    );
    let ratio = ours.median.as_secs_f64() / theirs.median.as_secs_f64();
    let most = peak::memory_kib(agents, &["version"])?;

    let rows = [("agents version", &ours), ("git --version", &theirs)]
        .map(|(name, spread)| vec![name.into(), millis(spread.median), millis(spread.p95)]);
    output::line(&table::render(&["program", "median ms", "p95 ms"], &rows));
    output::line(&format!("ratio of medians: {ratio:.2} ({RUNS} runs each)"));
    output::line(&format!(
        "peak memory of agents version: {:.1} MiB",
        most as f64 / 1024.0
    ));
    Ok(json!({
        "runs": RUNS,
        "agents": ours.json(),
        "git": theirs.json(),
        "ratio": ratio,
        "peak_kib": most,
    }))
}

/// Builds the program as shipped.
pub fn build() -> Result<PathBuf> {
    let root = environment::workspace_root();
    let package = ["-p", "cleveragents-cli", "--bin", "agents"];
    process::run(
        process::cargo(&root)
            .args(["build", "--release", "--locked"])
            .args(package),
    )?;
    Ok(environment::target_dir().join("release/agents"))
}

fn time(program: &Path, argument: &str) -> Result<Duration> {
    let mut command = process::command(program);
    command.arg(argument).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let begun = Instant::now();
    let status = command.status()?;
    let taken = begun.elapsed();
    if !status.success() {
        bail!("`{}` failed: {status}", process::command_line(&command));
    }
    Ok(taken)
}

/// The median and the slow end of a series of times.
#[derive(Debug, PartialEq, Eq)]
struct TimingSpread {
    median: Duration,
    p95: Duration,
}

impl TimingSpread {
    fn from_times(mut times: Vec<Duration>) -> TimingSpread {
        times.sort();
        let at = |part: usize| {
            let index = (times.len() * part / 100).min(times.len().saturating_sub(1));
            times.get(index).copied().unwrap_or_default()
        };
        TimingSpread {
            median: at(50),
            p95: at(95),
        }
    }

    fn json(&self) -> Value {
        json!({
            "median_ms": self.median.as_secs_f64() * 1000.0,
            "p95_ms": self.p95.as_secs_f64() * 1000.0,
        })
    }
}

fn millis(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_of_a_hundred() {
        let times = (1..=100).rev().map(Duration::from_millis).collect();
        let expected = TimingSpread {
            median: Duration::from_millis(51),
            p95: Duration::from_millis(96),
        };
        assert_eq!(TimingSpread::from_times(times), expected);
    }
}

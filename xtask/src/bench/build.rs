//! The cost of a clean build, and the most expensive crates.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::{environment, files, output, process, table};

const SHOWN: usize = 10;

/// Builds both profiles from scratch in a separate folder.
pub fn measure() -> Result<Value> {
    let target = environment::workspace_root().join("target/bench/build");
    let mut results = serde_json::Map::new();
    for profile in ["quick", "release"] {
        files::remove_folder(&target)?;
        let begun = Instant::now();
        process::run(
            process::cargo(&environment::workspace_root())
                .args(["build", "--locked", "--timings", "--profile", profile])
                .args(["-p", "cleveragents-cli", "--target-dir"])
                .arg(&target),
        )?;
        let seconds = begun.elapsed().as_secs_f64();
        let costs = crate_costs(&files::read(&timing_page(&target)?)?)?;
        output::line(&format!("\n{profile}: {seconds:.1} s from a clean start"));
        output::line(&cost_table(&costs));
        let crates: Vec<Value> = costs
            .iter()
            .map(|(name, seconds)| json!({ "name": name, "seconds": seconds }))
            .collect();
        results.insert(
            profile.into(),
            json!({ "seconds": seconds, "crates": crates }),
        );
    }
    files::remove_folder(&target)?;
    Ok(Value::Object(results))
}

fn timing_page(target: &Path) -> Result<PathBuf> {
    let folder = target.join("cargo-timings");
    let page = folder.join("cargo-timing.html");
    page.exists()
        .then_some(page)
        .with_context(|| format!("cargo left no timings in {}", folder.display()))
}

fn cost_table(costs: &[(String, f64)]) -> String {
    let rows: Vec<Vec<String>> = costs
        .iter()
        .take(SHOWN)
        .map(|(name, seconds)| vec![name.clone(), format!("{seconds:.1}")])
        .collect();
    table::render(&["crate", "seconds"], &rows)
}

/// Seconds by crate, including its build script, most expensive first; from the data inside cargo's
/// page.
fn crate_costs(page: &str) -> Result<Vec<(String, f64)>> {
    let (_, data) = page
        .split_once("UNIT_DATA = ")
        .context("cargo's timing page holds no UNIT_DATA: its format has changed")?;
    let units = serde_json::Deserializer::from_str(data)
        .into_iter::<Vec<Value>>()
        .next()
        .context("UNIT_DATA is empty")??;
    let mut costs: BTreeMap<&str, f64> = BTreeMap::new();
    for unit in &units {
        let name = unit["name"].as_str().context("a unit without a name")?;
        *costs.entry(name).or_default() += unit["duration"].as_f64().unwrap_or(0.0);
    }
    let mut costs: Vec<(String, f64)> = costs
        .into_iter()
        .map(|(name, seconds)| (name.to_owned(), seconds))
        .collect();
    costs.sort_by(|one, other| other.1.total_cmp(&one.1));
    Ok(costs)
}

#[cfg(test)]
mod tests {
    use super::crate_costs;

    #[test]
    fn costs_are_summed_by_crate() {
        let page = r#"<script>const UNIT_DATA = [
            {"i":0,"name":"ring","target":" build script (run)","duration":2.5,"sections":null},
            {"i":1,"name":"serde","duration":3.0},
            {"i":2,"name":"ring","duration":1.0}
        ];
        const CONCURRENCY_DATA = [];"#;
        let costs = crate_costs(page).unwrap();
        assert_eq!(costs, [("ring".into(), 3.5), ("serde".into(), 3.0)]);
        assert!(crate_costs("<html>").is_err());
    }
}

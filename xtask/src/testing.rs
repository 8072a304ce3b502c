//! `cargo xtask test`: the README's test command, and the run that `stress` shares with it.

use anyhow::{Result, bail};

use crate::cluster::PostgresCluster;
use crate::local_model::{self, LocalModel};
use crate::report::TestReport;
use crate::{environment, output, process};

/// The percentage of trials of a normal run.
const EVERYDAY_TRIALS: &str = "10";

/// Runs all tests of the workspace; arguments after `--` narrow the run.
pub fn run(arguments: &[String]) -> Result<()> {
    let narrowing = match arguments.split_first() {
        None => &[][..],
        Some((dashes, rest)) if dashes == "--" => rest,
        Some((other, _)) => {
            bail!("unexpected `{other}`; what is meant for cargo test goes after `--`")
        }
    };
    let trials = environment::variable(environment::TRIALS);
    let cluster = PostgresCluster::start()?;
    let mut selection = vec!["--workspace".to_owned()];
    selection.extend_from_slice(narrowing);
    if narrowing.iter().any(|part| names_packages(part)) {
        selection.remove(0);
    }
    let model = if local_model::is_needed(&selection) {
        Some(LocalModel::start()?)
    } else {
        None
    };
    run_tests(
        &cluster,
        &TestRun {
            selection,
            model: model.as_ref(),
            trials: trials.as_deref().unwrap_or(EVERYDAY_TRIALS),
            coverage: if narrowing.is_empty() {
                TestCoverage::Whole
            } else {
                TestCoverage::Part
            },
        },
    )
}

fn names_packages(argument: &str) -> bool {
    argument.starts_with("-p") || argument.starts_with("--package")
}

/// Whether a run must fill the whole table of stores and areas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestCoverage {
    Whole,
    Part,
}

/// The selection and thoroughness of a test run.
#[derive(Debug)]
pub struct TestRun<'a> {
    /// Arguments of `cargo test`.
    pub selection: Vec<String>,
    /// For tests that use a model.
    pub model: Option<&'a LocalModel>,
    pub trials: &'a str,
    pub coverage: TestCoverage,
}

/// Runs the tests against the cluster, then prints the table and the totals.
pub fn run_tests(cluster: &PostgresCluster, run: &TestRun<'_>) -> Result<()> {
    let colour = if environment::is_terminal() {
        "always"
    } else {
        "never"
    };
    let mut command = process::cargo(&environment::workspace_root());
    command
        .args(["test", "--locked", "--no-fail-fast", "--color"])
        .arg(colour)
        .args(&run.selection)
        .env(environment::TRIALS, run.trials)
        .envs(cluster.variables())
        .envs(run.model.into_iter().flat_map(LocalModel::variables));
    let mut report = TestReport::default();
    let status = process::stream(&mut command, |line| {
        output::line(line);
        report.read_line(line);
    })?;

    output::heading("passed tests by area and store");
    output::line(&report.store_table());
    let mut faults = Vec::new();
    if run.coverage == TestCoverage::Whole {
        faults = report.gaps();
    }
    let counts = report.counts();
    if !status.success() && counts.failed == 0 {
        faults.push(format!(
            "`{}` did not succeed ({status}) though no test says it failed: see its output above",
            process::command_line(&command)
        ));
    }
    for fault in &faults {
        output::line(&format!("error: {fault}"));
    }
    output::line(&format!(
        "\n{} passed, {} failed",
        counts.passed, counts.failed
    ));
    if status.success() && faults.is_empty() {
        Ok(())
    } else {
        Err(output::AlreadyReported.into())
    }
}

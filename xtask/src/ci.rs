//! `cargo xtask ci`: runs every check, those that fail fastest first.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::mutants::MutantShare;
use crate::{attack, environment, mutants, output, pictures, process, table, testing};

/// The docs are for contributors: they include private items, so links may lead there.
const RUSTDOC_FLAGS: &str = "-D warnings -A rustdoc::private_intra_doc_links";

/// Each run tests one of this many parts of the mutants; the next commit's run tests the next part.
/// All mutants together would take longer than everything else.
const PARTS_OF_MUTANTS: usize = 8;

/// Runs the steps; stops at the first failure.
pub fn run(arguments: &[String]) -> Result<()> {
    crate::no_arguments("ci", arguments)?;
    let mut record = CiStepLog::default();
    let outcome = steps(&mut record);
    output::heading("steps");
    output::line(&record.table());
    outcome
}

fn steps(record: &mut CiStepLog) -> Result<()> {
    record.step("fmt", || {
        process::run(&mut cargo(&["fmt", "--all", "--check"]))
    })?;
    record.step("clippy", || {
        let scope = ["clippy", "--workspace", "--all-targets", "--locked"];
        process::run(cargo(&scope).args(["--", "-D", "warnings"]))
    })?;
    record.step("tidy", || {
        let tidy = ["test", "--locked", "-p", "xtask", "--test", "tidy"];
        process::run(cargo(&tidy).args(["--", "--nocapture"]))
    })?;
    record.step("docs", || {
        let scope = ["doc", "--workspace", "--no-deps", "--locked"];
        process::run(
            cargo(&scope)
                .arg("--document-private-items")
                .env("RUSTDOCFLAGS", RUSTDOC_FLAGS),
        )
    })?;
    record.step("mutants build", || mutants::run(&["--build".to_owned()]))?;
    record.step("test", || testing::run(&[]))?;
    record.step("attack", || {
        // The tests have just built it; a build of its own would differ in features only.
        let program = environment::target_dir().join("debug/agents");
        attack::run(&["--program".into(), program.display().to_string()])
    })?;
    record.step("pictures", || {
        // As above: the tests have built both programs.
        pictures::run(&["--check".to_owned(), "--no-build".to_owned()])
    })?;
    record.step("mutants", || {
        let share = MutantShare::for_commit(commits()?, PARTS_OF_MUTANTS);
        mutants::run(&[share.to_string()])
    })
}

/// The number of commits in the history.
fn commits() -> Result<usize> {
    let mut git = process::command("git");
    git.args(["rev-list", "--count", "HEAD"])
        .current_dir(environment::workspace_root());
    let text = process::capture(&mut git)?;
    text.trim().parse().context("git does not count commits")
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = process::cargo(&environment::workspace_root());
    command.args(arguments);
    command
}

/// The completed steps.
#[derive(Debug, Default)]
struct CiStepLog {
    rows: Vec<Vec<String>>,
}

impl CiStepLog {
    fn step(&mut self, name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
        output::heading(name);
        let begun = Instant::now();
        let outcome = work();
        let word = match outcome {
            Ok(()) => "ok",
            Err(_) => "FAILED",
        };
        let seconds = format!("{:.1}", begun.elapsed().as_secs_f64());
        output::line(&format!("-- {name}: {word}, {seconds} s"));
        self.rows.push(vec![name.into(), word.into(), seconds]);
        outcome
    }

    fn table(&self) -> String {
        table::render(&["step", "result", "seconds"], &self.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_is_recorded_and_passed_on() {
        let mut record = CiStepLog::default();
        record.step("one", || Ok(())).unwrap();
        assert!(record.step("two", || anyhow::bail!("no")).is_err());
        let words: Vec<&str> = record.rows.iter().map(|row| row[1].as_str()).collect();
        assert_eq!(words, ["ok", "FAILED"]);
    }
}

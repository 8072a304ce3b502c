//! Runs the expected tests: they must pass on the unchanged copy and fail on a mutant.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::definition::Mutant;
use super::{MutantRunner, MutantVerdict};
use crate::process::{self, CollectedOutput};
use crate::report::{TestOutcome, TestReport};

/// A build may be slow on a small machine; this only ends one that is stuck.
pub(super) const BUILD_LIMIT: Duration = Duration::from_mins(20);

/// The number of lines shown of a long output.
const SHOWN_LINES: usize = 60;

/// Options of `cargo test` whose value is a separate argument.
const OPTIONS_WITH_VALUE: [&str; 8] = [
    "-p",
    "--package",
    "--test",
    "--bin",
    "--example",
    "--features",
    "--profile",
    "--exclude",
];

impl MutantRunner {
    /// Runs every expected test once, those of the same binary together; each must exist and pass.
    /// Returns the time of the slowest run.
    pub(super) fn check_tests_pass(&self, mutants: &[Mutant]) -> Result<Duration> {
        let mut slowest = Duration::ZERO;
        let expected = mutants.iter().flat_map(Mutant::tests);
        for (target, filters) in group_tests(expected) {
            let mut arguments = target.clone();
            arguments.push("--".into());
            arguments.extend(filters.iter().cloned());
            let shown = arguments.join(" ");
            if let BuildOutcome::Failed(text) = self.build(&target)? {
                bail!("`cargo test {shown}` does not build on the unchanged source:\n{text}");
            }
            // All tests of the run share one limit, so each mutant contributes its own.
            let limit = self.limit * u32::try_from(mutants.len().max(1))?;
            let started = Instant::now();
            let text = match process::collect_within(&mut self.cargo_test(&arguments), limit)? {
                CollectedOutput::Exited {
                    success: true,
                    text,
                } => text,
                CollectedOutput::Exited { text, .. } | CollectedOutput::TimedOut { text } => {
                    bail!(
                        "`cargo test {shown}` must be green on the unchanged source:\n{}",
                        tail(&text)
                    )
                }
            };
            slowest = slowest.max(started.elapsed());
            let report = TestReport::parse(&text);
            if let Some(missing) = find_unmatched_filter(&report, &filters) {
                bail!("no test matches `{missing}` in `cargo test {shown}`: fix `tests`");
            }
        }
        Ok(slowest)
    }

    /// Runs the tests of a mutant whose edits are in the copy.
    pub(super) fn try_mutant(&self, mutant: &Mutant, limit: Duration) -> Result<MutantVerdict> {
        let mut verdict = MutantVerdict::Caught;
        for arguments in &mutant.tests() {
            // A mutant that does not compile would count as caught although no test ran.
            if let BuildOutcome::Failed(text) = self.build(arguments)? {
                return Ok(MutantVerdict::DoesNotBuild(text));
            }
            match process::collect_within(&mut self.cargo_test(arguments), limit)? {
                CollectedOutput::Exited {
                    success: true,
                    text,
                } => {
                    let shown = arguments.join(" ");
                    return Ok(MutantVerdict::Survived(format!("{shown}\n{}", tail(&text))));
                }
                CollectedOutput::Exited { .. } => {}
                CollectedOutput::TimedOut { .. } => verdict = MutantVerdict::CaughtByTimeout,
            }
        }
        Ok(verdict)
    }

    /// Builds separately, to distinguish a source that does not compile from a test that fails.
    fn build(&self, arguments: &[String]) -> Result<BuildOutcome> {
        let mut with_no_run = vec!["--no-run".to_owned()];
        with_no_run.extend_from_slice(arguments);
        let ended = process::collect_within(&mut self.cargo_test(&with_no_run), BUILD_LIMIT)?;
        Ok(match ended {
            CollectedOutput::Exited { success: true, .. } => BuildOutcome::Succeeded,
            CollectedOutput::Exited { text, .. } | CollectedOutput::TimedOut { text } => {
                BuildOutcome::Failed(tail(&text))
            }
        })
    }

    fn cargo_test(&self, arguments: &[String]) -> Command {
        let mut command = self.cargo();
        command
            // Without `--no-fail-fast` the first failing binary would hide the others.
            .args(["test", "--locked", "--no-fail-fast"])
            .args(arguments);
        command
    }

    /// The cargo that builds the copy.
    pub(super) fn cargo(&self) -> Command {
        let mut command = process::cargo(&self.tree);
        command
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_BUILD_BUILD_DIR", &self.build)
            .env("CARGO_PROFILE_DEV_DEBUG", "false")
            .env("CARGO_INCREMENTAL", "1")
            .env("CARGO_TERM_COLOR", "never")
            .envs(self.variables.iter().cloned());
        command
    }
}

enum BuildOutcome {
    Succeeded,
    Failed(String),
}

/// The build arguments, and the test names for each.
type TestGroups = BTreeMap<Vec<String>, Vec<String>>;

fn group_tests(expected: impl Iterator<Item = Vec<String>>) -> TestGroups {
    let mut groups = TestGroups::new();
    for arguments in expected {
        let (target, filters) = split_arguments(&arguments);
        let group = groups.entry(target).or_default();
        for filter in filters {
            if !group.contains(&filter) {
                group.push(filter);
            }
        }
    }
    groups
}

/// Splits the arguments of `cargo test` into those for the build and those for the test program.
pub(crate) fn split_arguments(arguments: &[String]) -> (Vec<String>, Vec<String>) {
    let mut target = Vec::new();
    let mut filters = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if word == "--" {
            filters.extend(words.by_ref().cloned());
        } else if word.starts_with('-') {
            target.push(word.clone());
            if OPTIONS_WITH_VALUE.contains(&word.as_str()) {
                target.extend(words.next().cloned());
            }
        } else {
            filters.push(word.clone());
        }
    }
    (target, filters)
}

fn find_unmatched_filter<'a>(report: &TestReport, filters: &'a [String]) -> Option<&'a String> {
    filters.iter().find(|filter| {
        let names_tests = !filter.starts_with('-');
        names_tests
            && !report
                .paths(TestOutcome::Passed)
                .any(|path| path.contains(filter.as_str()))
    })
}

pub(super) fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn tests_of_one_binary_run_together() {
        let expected = [
            words("-p integration-tests --test contract plans::sqlite"),
            words("-p integration-tests --test contract runs::sqlite"),
            words("-p integration-tests --test contract runs::sqlite"),
            words("-p store --lib -- --exact name::tests::reads"),
        ];
        let groups = group_tests(expected.into_iter());
        assert_eq!(
            groups[&words("-p integration-tests --test contract")],
            words("plans::sqlite runs::sqlite")
        );
        assert_eq!(
            groups[&words("-p store --lib")],
            words("--exact name::tests::reads")
        );
    }

    #[test]
    fn a_filter_without_a_test_is_found() {
        let report = TestReport::parse("test plans::sqlite::stale ... ok");
        assert_eq!(
            find_unmatched_filter(&report, &words("plans::sqlite")),
            None
        );
        assert_eq!(
            find_unmatched_filter(&report, &words("--exact plans::postgres")),
            Some(&"plans::postgres".to_owned())
        );
    }
}

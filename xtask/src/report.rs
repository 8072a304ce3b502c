//! Parses the output of a `cargo test` run, and renders the table of stores and areas.

use std::collections::BTreeMap;

use crate::table;

/// The stores that every contract test must pass on.
pub const STORES: [&str; 3] = ["memory", "sqlite", "postgres"];

/// The test binary whose areas must have a test on every store.
const CONTRACT: &str = "contract";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestOutcome {
    Passed,
    Failed,
    Ignored,
}

/// One `test path ... outcome` line and the binary it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestLine {
    pub binary: String,
    pub path: String,
    pub outcome: TestOutcome,
}

/// The number of tests per outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TestCounts {
    pub passed: usize,
    pub failed: usize,
    pub ignored: usize,
}

/// Everything read so far.
#[derive(Debug, Default)]
pub struct TestReport {
    binary: String,
    tests: Vec<TestLine>,
    /// One for each `running N tests`; the harness's own totals replace what we counted from its
    /// lines.
    batches: Vec<TestCounts>,
}

/// Passed tests of one area, by store.
type StoreCounts = BTreeMap<&'static str, usize>;

impl TestReport {
    /// Parses a complete output.
    pub fn parse(text: &str) -> TestReport {
        let mut report = TestReport::default();
        text.lines().for_each(|line| report.read_line(line));
        report
    }

    /// Reads one more line of output; ignores lines that are not about tests.
    pub fn read_line(&mut self, line: &str) {
        let line = without_colour(line);
        let line = line.trim();
        if let Some(binary) = running_binary(line) {
            self.binary = binary;
        } else if is_batch_start(line) {
            self.batches.push(TestCounts::default());
        } else if let Some(counts) = batch_result(line) {
            self.batches.pop();
            self.batches.push(counts);
        } else if let Some((path, outcome)) = test_line(line) {
            self.add(path, outcome);
        }
    }

    fn add(&mut self, path: String, outcome: TestOutcome) {
        if self.batches.is_empty() {
            self.batches.push(TestCounts::default());
        }
        if let Some(counts) = self.batches.last_mut() {
            match outcome {
                TestOutcome::Passed => counts.passed += 1,
                TestOutcome::Failed => counts.failed += 1,
                TestOutcome::Ignored => counts.ignored += 1,
            }
        }
        let binary = self.binary.clone();
        self.tests.push(TestLine {
            binary,
            path,
            outcome,
        });
    }

    /// The totals over all binaries.
    pub fn counts(&self) -> TestCounts {
        self.batches
            .iter()
            .fold(TestCounts::default(), |sum, batch| TestCounts {
                passed: sum.passed + batch.passed,
                failed: sum.failed + batch.failed,
                ignored: sum.ignored + batch.ignored,
            })
    }

    /// The names of the tests with this outcome.
    pub fn paths(&self, outcome: TestOutcome) -> impl Iterator<Item = &str> {
        self.tests
            .iter()
            .filter(move |test| test.outcome == outcome)
            .map(|test| test.path.as_str())
    }

    /// The table store × area, contract first.
    pub fn store_table(&self) -> String {
        let contract = rows(&self.areas(AreaKind::Contract));
        let others = rows(&self.areas(AreaKind::Other));
        let heads = ["area", STORES[0], STORES[1], STORES[2]];
        let mut text = table::render(&heads, &contract);
        if !others.is_empty() {
            text.push_str("\n\noutside the contract suite\n");
            text.push_str(&table::render(&heads, &others));
        }
        text
    }

    /// The gaps of the table: no contract test at all, or an area without a test on some store.
    pub fn gaps(&self) -> Vec<String> {
        let areas = self.areas(AreaKind::Contract);
        if areas.is_empty() {
            return vec![format!(
                "the test binary `{CONTRACT}` ran no test on any store: name contract tests \
                 `<area>::<memory|sqlite|postgres>::<test>`"
            )];
        }
        let mut gaps = Vec::new();
        for (area, cells) in &areas {
            for store in STORES {
                if cells.get(store).copied().unwrap_or(0) == 0 {
                    gaps.push(format!(
                        "contract area `{area}` has no passed test on {store}"
                    ));
                }
            }
        }
        gaps
    }

    /// Areas come from tests of any outcome, so an area with only failures still has its row.
    fn areas(&self, kind: AreaKind) -> BTreeMap<String, StoreCounts> {
        let mut areas: BTreeMap<String, StoreCounts> = BTreeMap::new();
        let wanted = |test: &&TestLine| (test.binary == CONTRACT) == (kind == AreaKind::Contract);
        for test in self.tests.iter().filter(wanted) {
            let Some((area, store)) = area_and_store(&test.path) else {
                continue;
            };
            let area = match (kind, area.is_empty()) {
                (_, true) => test.binary.clone(),
                (AreaKind::Contract, false) => area,
                (AreaKind::Other, false) => format!("{}::{area}", test.binary),
            };
            let passed = usize::from(test.outcome == TestOutcome::Passed);
            *areas.entry(area).or_default().entry(store).or_default() += passed;
        }
        areas
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AreaKind {
    Contract,
    Other,
}

fn rows(areas: &BTreeMap<String, StoreCounts>) -> Vec<Vec<String>> {
    areas
        .iter()
        .map(|(area, cells)| {
            let count = |store: &str| cells.get(store).map_or("-".into(), ToString::to_string);
            std::iter::once(area.clone())
                .chain(STORES.iter().map(|store| count(store)))
                .collect()
        })
        .collect()
}

/// The area before the first component that names a store, and that store.
fn area_and_store(path: &str) -> Option<(String, &'static str)> {
    let components: Vec<&str> = path.split("::").collect();
    components
        .iter()
        .enumerate()
        .find_map(|(index, component)| {
            let store = STORES.into_iter().find(|store| store == component)?;
            Some((components[..index].join("::"), store))
        })
}

/// `Running tests/contract.rs (target/debug/deps/contract-0123)` or `Doc-tests cleveragents_store`.
fn running_binary(line: &str) -> Option<String> {
    if let Some(name) = line.strip_prefix("Doc-tests ") {
        return Some(format!("{name} (doc)"));
    }
    let (_, executable) = line.strip_prefix("Running ")?.rsplit_once(" (")?;
    let file = executable.strip_suffix(')')?.rsplit('/').next()?;
    let name = file.rsplit_once('-').map_or(file, |(name, _)| name);
    Some(name.to_owned())
}

/// `running 12 tests`.
fn is_batch_start(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    matches!(words[..], ["running", count, "test" | "tests"] if count.parse::<usize>().is_ok())
}

/// `test journal::sqlite::append_is_gap_free ... ok`; a reason may follow `ignored`.
fn test_line(line: &str) -> Option<(String, TestOutcome)> {
    let (path, outcome) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let outcome = match outcome.split([' ', ',', '<']).next()? {
        "ok" => TestOutcome::Passed,
        "FAILED" => TestOutcome::Failed,
        "ignored" => TestOutcome::Ignored,
        _ => return None,
    };
    let path = path.strip_suffix(" - should panic").unwrap_or(path);
    Some((path.to_owned(), outcome))
}

/// `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
fn batch_result(line: &str) -> Option<TestCounts> {
    let (_, sums) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let mut counts = TestCounts::default();
    for part in sums.split(';') {
        let mut words = part.split_whitespace();
        let (Some(number), Some(what)) = (words.next(), words.next()) else {
            continue;
        };
        match (number.parse(), what) {
            (Ok(number), "passed") => counts.passed = number,
            (Ok(number), "failed") => counts.failed = number,
            (Ok(number), "ignored") => counts.ignored = number,
            _ => {}
        }
    }
    Some(counts)
}

/// Removes terminal colour sequences.
fn without_colour(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            characters.by_ref().find(char::is_ascii_alphabetic);
        } else {
            plain.push(character);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "\
   Compiling cleveragents-integration-tests v0.1.0
     Running unittests src/lib.rs (target/debug/deps/cleveragents_store-0a1b)

running 2 tests
test sqlite::writer::tests::groups ... ok
test name::tests::reads ... ok

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

\u{1b}[1m\u{1b}[92m     Running\u{1b}[0m tests/contract.rs (/t/debug/deps/contract-9f8e)

running 5 tests
test journal::memory::append_is_gap_free ... ok
test journal::sqlite::append_is_gap_free ... ok
test journal::postgres::append_is_gap_free ... ok
test plans::sqlite::stale_version_is_a_conflict ... FAILED
test plans::memory::stale_version_is_a_conflict - should panic ... ok

test result: FAILED. 4 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s

   Doc-tests cleveragents_domain

running 1 test
test crates/domain/src/id.rs - id::Id (line 12) ... ignored, because

test result: ok. 0 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

    #[test]
    fn sums_are_over_all_binaries() {
        let expected = TestCounts {
            passed: 6,
            failed: 1,
            ignored: 1,
        };
        assert_eq!(TestReport::parse(RUN).counts(), expected);
    }

    #[test]
    fn the_table_counts_passed_tests_by_area_and_store() {
        let expected = "\
area     memory  sqlite  postgres
-------  ------  ------  --------
journal  1       1       1
plans    1       0       -

outside the contract suite
area                memory  sqlite  postgres
------------------  ------  ------  --------
cleveragents_store  -       1       -";
        assert_eq!(TestReport::parse(RUN).store_table(), expected);
    }

    #[test]
    fn an_empty_cell_is_a_gap() {
        let expected = [
            "contract area `plans` has no passed test on sqlite",
            "contract area `plans` has no passed test on postgres",
        ];
        assert_eq!(TestReport::parse(RUN).gaps(), expected);
    }

    #[test]
    fn a_run_without_contract_tests_is_a_gap() {
        let gaps = TestReport::parse("running 1 test\ntest sqlite::x ... ok").gaps();
        assert_eq!(gaps.len(), 1);
        assert!(gaps[0].contains("ran no test"), "{gaps:?}");
    }

    #[test]
    fn a_crashed_binary_keeps_its_counts() {
        let text = "Running tests/kill.rs (target/debug/deps/kill-1)\nrunning 2 tests\n\
                    test sqlite::a ... ok\nerror: test failed";
        assert_eq!(TestReport::parse(text).counts().passed, 1);
    }
}

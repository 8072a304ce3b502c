//! `cargo xtask stress`: runs the race and kill tests with every trial, for the requested number of
//! rounds.

use anyhow::{Context, Result, bail};

use crate::cluster::PostgresCluster;
use crate::local_model::{self, LocalModel};
use crate::output;
use crate::testing::{self, TestCoverage, TestRun};

/// The default selection: the packages, or one binary of a package, with race and kill tests.
const PARTS: [(&[&str], TestCoverage); 2] = [
    (
        &[
            "-p",
            "cleveragents-integration-tests",
            "-p",
            "cleveragents-sandbox",
        ],
        TestCoverage::Whole,
    ),
    (
        &["-p", "cleveragents-cli", "--test", "work"],
        TestCoverage::Part,
    ),
];

/// Runs the rounds one after the other; stops at the first failure.
pub fn run(arguments: &[String]) -> Result<()> {
    let StressOptions { rounds, narrowing } = parse_options(arguments)?;
    let narrowing: Vec<&str> = narrowing.iter().map(String::as_str).collect();
    let cluster = PostgresCluster::start()?;
    for round in 1..=rounds {
        output::heading(&format!("round {round} of {rounds}"));
        if !narrowing.is_empty() {
            stress(&cluster, &narrowing, TestCoverage::Part)?;
            continue;
        }
        for (selection, coverage) in PARTS {
            stress(&cluster, selection, coverage)?;
        }
    }
    Ok(())
}

fn stress(cluster: &PostgresCluster, selection: &[&str], coverage: TestCoverage) -> Result<()> {
    let selection = ["--profile", "quick"].iter().chain(selection);
    let selection: Vec<String> = selection.map(|part| (*part).to_owned()).collect();
    let model = if local_model::is_needed(&selection) {
        Some(LocalModel::start()?)
    } else {
        None
    };
    testing::run_tests(
        cluster,
        &TestRun {
            selection,
            model: model.as_ref(),
            trials: "100",
            coverage,
        },
    )
}

#[derive(Debug, PartialEq, Eq)]
struct StressOptions {
    rounds: u32,
    /// Arguments of `cargo test` that replace the default selection.
    narrowing: Vec<String>,
}

fn parse_options(arguments: &[String]) -> Result<StressOptions> {
    let end = arguments.iter().position(|part| part == "--");
    let (own, narrowing) = match end {
        Some(end) => (&arguments[..end], &arguments[end + 1..]),
        None => (arguments, &[][..]),
    };
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let rounds = match own[..] {
        [] => 1,
        ["--rounds", number] => number
            .parse()
            .ok()
            .filter(|number| *number > 0)
            .with_context(|| format!("--rounds takes a number from 1, got `{number}`"))?,
        _ => bail!("usage: cargo xtask stress [--rounds N] [-- CARGO TEST ARGUMENTS]"),
    };
    Ok(StressOptions {
        rounds,
        narrowing: narrowing.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::parse_options;

    fn parse_words(words: &str) -> Option<(u32, Vec<String>)> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let asked = parse_options(&words).ok()?;
        Some((asked.rounds, asked.narrowing))
    }

    #[test]
    fn rounds_defaults_to_one() {
        assert_eq!(parse_words(""), Some((1, Vec::new())));
        assert_eq!(parse_words("--rounds 7"), Some((7, Vec::new())));
        assert_eq!(parse_words("--rounds 0"), None);
        assert_eq!(parse_words("7"), None);
    }

    #[test]
    fn the_tests_can_be_narrowed() {
        let narrowed = vec!["-p".to_owned(), "x".to_owned()];
        assert_eq!(parse_words("-- -p x"), Some((1, narrowed.clone())));
        assert_eq!(parse_words("--rounds 2 -- -p x"), Some((2, narrowed)));
        assert_eq!(parse_words("--rounds -- -p x"), None);
    }
}

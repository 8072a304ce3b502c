//! `cargo xtask stress`: the tests of races and kills with every trial, as many rounds as asked.

use anyhow::{Context, Result, bail};

use crate::cluster::Cluster;
use crate::local_model::{self, LocalModel};
use crate::output;
use crate::testing::{self, Coverage, Run};

/// What is tested unless something else is asked for: the packages, or one binary of a package,
/// whose tests kill and race.
const PARTS: [(&[&str], Coverage); 2] = [
    (
        &["-p", "cleveragents-proof", "-p", "cleveragents-sandbox"],
        Coverage::Whole,
    ),
    (
        &["-p", "cleveragents-cli", "--test", "work"],
        Coverage::Part,
    ),
];

/// Runs the rounds one after the other; the first red one ends it.
pub fn run(arguments: &[String]) -> Result<()> {
    let Asked { rounds, narrowing } = asked(arguments)?;
    let narrowing: Vec<&str> = narrowing.iter().map(String::as_str).collect();
    let cluster = Cluster::start()?;
    for round in 1..=rounds {
        output::heading(&format!("round {round} of {rounds}"));
        if !narrowing.is_empty() {
            stress(&cluster, &narrowing, Coverage::Part)?;
            continue;
        }
        for (selection, coverage) in PARTS {
            stress(&cluster, selection, coverage)?;
        }
    }
    Ok(())
}

fn stress(cluster: &Cluster, selection: &[&str], coverage: Coverage) -> Result<()> {
    let selection = ["--profile", "quick"].iter().chain(selection);
    let selection: Vec<String> = selection.map(|part| (*part).to_owned()).collect();
    let model = match local_model::is_needed(&selection) {
        true => Some(LocalModel::start()?),
        false => None,
    };
    testing::test(
        cluster,
        &Run {
            selection,
            model: model.as_ref(),
            trials: "100",
            coverage,
        },
    )
}

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    rounds: u32,
    /// Arguments of `cargo test` in place of ours.
    narrowing: Vec<String>,
}

fn asked(arguments: &[String]) -> Result<Asked> {
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
    Ok(Asked {
        rounds,
        narrowing: narrowing.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::asked;

    fn asks(words: &str) -> Option<(u32, Vec<String>)> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let asked = asked(&words).ok()?;
        Some((asked.rounds, asked.narrowing))
    }

    #[test]
    fn rounds_is_one_unless_told() {
        assert_eq!(asks(""), Some((1, Vec::new())));
        assert_eq!(asks("--rounds 7"), Some((7, Vec::new())));
        assert_eq!(asks("--rounds 0"), None);
        assert_eq!(asks("7"), None);
    }

    #[test]
    fn what_is_tested_can_be_narrowed() {
        let narrowed = vec!["-p".to_owned(), "x".to_owned()];
        assert_eq!(asks("-- -p x"), Some((1, narrowed.clone())));
        assert_eq!(asks("--rounds 2 -- -p x"), Some((2, narrowed)));
        assert_eq!(asks("--rounds -- -p x"), None);
    }
}

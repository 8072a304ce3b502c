//! `cargo xtask stress`: the tests of races and kills with every trial, as many rounds as asked.

use anyhow::{Context, Result, bail};

use crate::cluster::Cluster;
use crate::output;
use crate::testing::{self, Coverage, Run};

/// Runs the rounds one after the other; the first red one ends it.
pub fn run(arguments: &[String]) -> Result<()> {
    let rounds = rounds(arguments)?;
    let cluster = Cluster::start()?;
    for round in 1..=rounds {
        output::heading(&format!("round {round} of {rounds}"));
        let mut selection = vec!["--profile", "quick"];
        selection.extend(["-p", "cleveragents-proof", "-p", "cleveragents-sandbox"]);
        testing::test(
            &cluster,
            &Run {
                selection: selection.into_iter().map(str::to_owned).collect(),
                trials: "100",
                coverage: Coverage::Whole,
            },
        )?;
    }
    Ok(())
}

fn rounds(arguments: &[String]) -> Result<u32> {
    let parts: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match parts[..] {
        [] => Ok(1),
        ["--rounds", number] => number
            .parse()
            .ok()
            .filter(|number| *number > 0)
            .with_context(|| format!("--rounds takes a number from 1, got `{number}`")),
        _ => bail!("usage: cargo xtask stress [--rounds N]"),
    }
}

#[cfg(test)]
mod tests {
    use super::rounds;

    #[test]
    fn rounds_is_one_unless_told() {
        assert_eq!(rounds(&[]).unwrap(), 1);
        assert_eq!(rounds(&["--rounds".into(), "7".into()]).unwrap(), 7);
        assert!(rounds(&["--rounds".into(), "0".into()]).is_err());
        assert!(rounds(&["7".into()]).is_err());
    }
}

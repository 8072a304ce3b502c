//! `agents config get`

use clap::Args;
use serde_json::{Value, json};

use super::{key, shown, value};
use crate::commands::Context;
use crate::failure::Failure;
use crate::output::{Answer, Cell, Tone, View};
use crate::settings::{Resolved, Source};

/// Show the value of a setting and where it comes from
///
/// With --verbose, show what each of the five sources says.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents config get plan.concurrency
  agents config get core.format --verbose
  agents config get core.database-url --format json")]
pub struct Get {
    /// The name of the setting, as in `agents config list`
    #[arg(value_name = "KEY")]
    key: String,
}

impl Get {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let key = key(&self.key)?;
        let resolved = context.settings()?.get(key);
        let winner = resolved.winner();
        let source = winner.map(|winner| winner.source.name());
        let origin = winner.and_then(|winner| winner.origin.as_deref());
        let mut data = json!({
            "key": key.name(),
            "value": value(resolved, winner),
            "source": source,
            "origin": origin,
        });
        let mut rows = vec![
            ("key", key.name().into()),
            ("value", shown(resolved, winner)),
            ("source", source.unwrap_or("none").into()),
        ];
        if let Some(origin) = origin {
            rows.push(("origin", origin.into()));
        }
        let mut view = View::new().panel("Setting", rows);
        if context.arguments.verbose > 0 {
            data["chain"] = chain_data(resolved);
            let headers = ["source", "value", "origin"];
            view = view.table("Sources, the strongest first", &headers, chain(resolved));
        }
        Ok(Answer::new(data, view))
    }
}

fn chain(resolved: &Resolved) -> Vec<Vec<Cell>> {
    let winner = resolved.winner().map(|winner| winner.source);
    let row = |source: Source| {
        let candidate = resolved.from(source);
        let tone = match winner == Some(source) {
            true => Tone::Good,
            false => Tone::Faint,
        };
        let value = match candidate {
            Some(one) if one.ignored.is_some() => {
                Cell::new(format!("{} (ignored)", resolved.shown(one)), Tone::Doubtful)
            }
            Some(one) => Cell::new(resolved.shown(one).to_string(), tone),
            None => Cell::new("-", Tone::Faint),
        };
        let origin = candidate.and_then(|one| one.origin.clone());
        vec![
            Cell::new(source.name(), tone),
            value,
            Cell::new(origin.unwrap_or_else(|| "-".to_owned()), Tone::Faint),
        ]
    };
    Source::ALL.into_iter().map(row).collect()
}

fn chain_data(resolved: &Resolved) -> Value {
    let row = |source: Source| {
        let candidate = resolved.from(source);
        json!({
            "source": source.name(),
            "value": value(resolved, candidate),
            "origin": candidate.and_then(|one| one.origin.clone()),
            "ignored": candidate.and_then(|one| one.ignored.clone()),
        })
    };
    Source::ALL.into_iter().map(row).collect()
}

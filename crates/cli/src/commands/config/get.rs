//! `agents config get`

use clap::Args;
use serde::Serialize;

use super::{SettingAnswer, parse_key, value_cell};
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell};
use crate::settings::{ResolvedSetting, SettingSource, SettingValue};

/// Show the value of a setting and its source
///
/// With --verbose, show the value in each of the five sources.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents config get plan.concurrency
  agents config get core.format --verbose
  agents config get core.database-url --format json")]
pub struct ConfigGetArgs {
    /// The name of the setting, as in `agents config list`
    #[arg(value_name = "KEY")]
    key: String,
}

#[derive(Debug, Serialize)]
struct ConfigGetAnswer<'a> {
    #[serde(flatten)]
    setting: SettingAnswer,
    /// The value of each source, highest priority first, if the user asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    chain: Option<Vec<ChainLink<'a>>>,
}

#[derive(Debug, Serialize)]
struct ChainLink<'a> {
    source: SettingSource,
    value: Option<SettingValue>,
    origin: Option<&'a str>,
    ignored: Option<&'a str>,
}

impl ConfigGetArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let key = parse_key(&self.key)?;
        let resolved = context.settings()?.get(key);
        let winner = resolved.winner();
        let source = winner.map(|winner| winner.source.name());
        let origin = winner.and_then(|winner| winner.origin.as_deref());
        let mut rows = vec![
            ("key", key.name().into()),
            ("value", value_cell(resolved, winner)),
            ("source", source.unwrap_or("none").into()),
        ];
        if let Some(origin) = origin {
            rows.push(("origin", origin.into()));
        }
        let mut view = OutputView::new().panel("Setting", rows);
        let mut chain = None;
        if context.arguments.verbose > 0 {
            chain = Some(chain_links(resolved));
            let headers = ["source", "value", "origin"];
            view = view.table(
                "Sources, highest priority first",
                &headers,
                chain_rows(resolved),
            );
        }
        let setting = SettingAnswer::from(resolved);
        CommandAnswer::new(&ConfigGetAnswer { setting, chain }, view)
    }
}

fn chain_rows(resolved: &ResolvedSetting) -> Vec<Vec<ViewCell>> {
    let winner = resolved.winner().map(|winner| winner.source);
    let row = |source: SettingSource| {
        let candidate = resolved.from_source(source);
        let tone = if winner == Some(source) {
            Tone::Good
        } else {
            Tone::Faint
        };
        let value = match candidate {
            Some(one) if one.ignored.is_some() => ViewCell::new(
                format!("{} (ignored)", resolved.redacted_value(one)),
                Tone::Doubtful,
            ),
            Some(one) => ViewCell::new(resolved.redacted_value(one).to_string(), tone),
            None => ViewCell::new("-", Tone::Faint),
        };
        let origin = candidate.and_then(|one| one.origin.clone());
        vec![
            ViewCell::new(source.name(), tone),
            value,
            ViewCell::new(origin.unwrap_or_else(|| "-".to_owned()), Tone::Faint),
        ]
    };
    SettingSource::ALL.into_iter().map(row).collect()
}

fn chain_links(resolved: &ResolvedSetting) -> Vec<ChainLink<'_>> {
    let link = |source: SettingSource| {
        let candidate = resolved.from_source(source);
        ChainLink {
            source,
            value: candidate.map(|one| resolved.redacted_value(one)),
            origin: candidate.and_then(|one| one.origin.as_deref()),
            ignored: candidate.and_then(|one| one.ignored.as_deref()),
        }
    };
    SettingSource::ALL.into_iter().map(link).collect()
}

//! `agents config list`

use clap::Args;
use cleveragents_app::NamePattern;
use serde::Serialize;

use super::{SettingAnswer, value_cell};
use crate::argument_types::parse_limit;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell};
use crate::settings::registry::SettingScope;
use crate::settings::{ResolvedSetting, SettingSource};

/// List all settings with their values, sources and descriptions
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents config list
  agents config list '^provider'
  agents config list --format json")]
pub struct ConfigListArgs {
    /// Only keys that match this regular expression, ignoring case
    #[arg(value_name = "REGEX")]
    pattern: Option<NamePattern>,

    /// List at most this many
    #[arg(long, value_name = "NUMBER", value_parser = parse_limit)]
    limit: Option<usize>,
}

#[derive(Debug, Serialize)]
struct ConfigListAnswer {
    settings: Vec<ListedSetting>,
}

#[derive(Debug, Serialize)]
struct ListedSetting {
    #[serde(flatten)]
    setting: SettingAnswer,
    r#type: &'static str,
    /// The name of its environment variable.
    environment: String,
    /// Whether a project may set it.
    project: bool,
    description: &'static str,
}

impl ConfigListArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let settings = context.settings()?;
        let headers = ["key", "value", "source", "description"];
        let matching = settings.all.iter().filter(|it| {
            let pattern = self.pattern.as_ref();
            pattern.is_none_or(|pattern| pattern.matches(&it.key.name()))
        });
        let matching = matching.take(self.limit.unwrap_or(usize::MAX));
        let view = OutputView::new().table("Settings", &headers, matching.clone().map(row));
        let settings = matching.map(ListedSetting::from).collect();
        CommandAnswer::new(&ConfigListAnswer { settings }, view)
    }
}

fn row(resolved: &ResolvedSetting) -> Vec<ViewCell> {
    let winner = resolved.winner();
    let source = winner.map_or("-", |winner| winner.source.name());
    let tone = match winner.map(|winner| winner.source) {
        None | Some(SettingSource::Default) => Tone::Faint,
        Some(_) => Tone::Good,
    };
    let value = match winner {
        Some(_) => value_cell(resolved, winner),
        None => ViewCell::new("", Tone::Faint),
    };
    vec![
        resolved.key.name().into(),
        value,
        ViewCell::new(source, tone),
        ViewCell::new(resolved.key.setting().description, Tone::Faint),
    ]
}

impl From<&ResolvedSetting> for ListedSetting {
    fn from(resolved: &ResolvedSetting) -> Self {
        let setting = resolved.key.setting();
        Self {
            setting: resolved.into(),
            r#type: setting.kind.name(),
            environment: setting.variable(),
            project: setting.scope == SettingScope::Project,
            description: setting.description,
        }
    }
}

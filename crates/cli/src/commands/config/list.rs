//! `agents config list`

use clap::Args;
use serde_json::{Value, json};

use super::{value_cell, value_data};
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
  agents config list --format json")]
pub struct ConfigListArgs {}

impl ConfigListArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let settings = context.settings()?;
        let data: Vec<Value> = settings.all.iter().map(data).collect();
        let headers = ["key", "value", "source", "description"];
        let view = OutputView::new().table("Settings", &headers, settings.all.iter().map(row));
        Ok(CommandAnswer::new(json!({"settings": data}), view))
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

fn data(resolved: &ResolvedSetting) -> Value {
    let setting = resolved.key.setting();
    let winner = resolved.winner();
    json!({
        "key": setting.name,
        "value": value_data(resolved, winner),
        "source": winner.map(|winner| winner.source.name()),
        "origin": winner.and_then(|winner| winner.origin.clone()),
        "type": setting.kind.name(),
        "environment": setting.variable(),
        "project": setting.scope == SettingScope::Project,
        "description": setting.description,
    })
}

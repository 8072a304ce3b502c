//! `agents config list`

use clap::Args;
use serde_json::{Value, json};

use super::{shown, value};
use crate::commands::Context;
use crate::failure::Failure;
use crate::output::{Answer, Cell, Tone, View};
use crate::settings::registry::Scope;
use crate::settings::{Resolved, Source};

/// List all settings with their values, sources and meanings
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents config list
  agents config list --format json")]
pub struct List {}

impl List {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let settings = context.settings()?;
        let data: Vec<Value> = settings.all.iter().map(data).collect();
        let headers = ["key", "value", "source", "description"];
        let view = View::new().table("Settings", &headers, settings.all.iter().map(row));
        Ok(Answer::new(json!({"settings": data}), view))
    }
}

fn row(resolved: &Resolved) -> Vec<Cell> {
    let winner = resolved.winner();
    let source = winner.map_or("-", |winner| winner.source.name());
    let tone = match winner.map(|winner| winner.source) {
        None | Some(Source::Default) => Tone::Faint,
        Some(_) => Tone::Good,
    };
    let value = match winner {
        Some(_) => shown(resolved, winner),
        None => Cell::new("", Tone::Faint),
    };
    vec![
        resolved.key.name().into(),
        value,
        Cell::new(source, tone),
        Cell::new(resolved.key.setting().description, Tone::Faint),
    ]
}

fn data(resolved: &Resolved) -> Value {
    let setting = resolved.key.setting();
    let winner = resolved.winner();
    json!({
        "key": setting.name,
        "value": value(resolved, winner),
        "source": winner.map(|winner| winner.source.name()),
        "origin": winner.and_then(|winner| winner.origin.clone()),
        "type": setting.kind.name(),
        "environment": setting.variable(),
        "project": setting.scope == Scope::Project,
        "description": setting.description,
    })
}

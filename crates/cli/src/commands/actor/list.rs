//! `agents actor list`

use clap::Args;
use cleveragents_domain::ActorType;
use cleveragents_engine::actors::RegisteredActor;
use serde_json::{Value, json};

use super::model;
use crate::argument_types::parse_value;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell, format_count};
use cleveragents_app::NamePattern;

/// Default limit for the number of rows.
const DEFAULT_ROWS: usize = 100;

/// List actors by name, including the built-in ones
///
/// JSON and YAML contain all of them unless --limit is given; tables show the first 100.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents actor list
  agents actor list --type llm
  agents actor list '^local/'
  agents actor list --limit 10 --format json")]
pub struct ActorListArgs {
    /// Only names that match this regular expression, ignoring case
    #[arg(value_name = "REGEX")]
    pattern: Option<String>,

    /// Only actors of this type: llm, tool or graph
    #[arg(long = "type", value_name = "TYPE", value_parser = parse_value::<ActorType>)]
    actor_type: Option<ActorType>,

    /// List at most this many
    #[arg(long, value_name = "NUMBER")]
    limit: Option<usize>,
}

impl ActorListArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let pattern = self
            .pattern
            .as_deref()
            .map(NamePattern::parse)
            .transpose()?;
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_to_read()?;
        let mut all = app.block_on(app.actors().actors())?;
        all.retain(|each| {
            let actor = each.actor();
            let is_type = |wanted| wanted == actor.kind.actor_type();
            self.actor_type.is_none_or(is_type)
                && pattern.as_ref().is_none_or(|it| it.matches(&actor.name))
        });
        Ok(self.answer(&all, pattern.as_ref()))
    }

    fn answer(&self, all: &[RegisteredActor], pattern: Option<&NamePattern>) -> CommandAnswer {
        let listed = &all[..all.len().min(self.limit.unwrap_or(usize::MAX))];
        let seen = &all[..all.len().min(self.limit.unwrap_or(DEFAULT_ROWS))];
        let built_in = all.iter().filter(|each| is_built_in(each)).count();
        let data = json!({
            "actors": listed.iter().map(data).collect::<Vec<Value>>(),
            "filters": {
                "type": self.actor_type,
                "pattern": pattern.map(NamePattern::as_str),
            },
            "summary": {
                "total": all.len(),
                "built_in": built_in,
                "custom": all.len() - built_in,
            },
        });
        let headers = ["name", "type", "kind", "model", "steps", "description"];
        let view = OutputView::new().table("Actors", &headers, seen.iter().map(row));
        let number = i64::try_from(listed.len()).unwrap_or(i64::MAX);
        let said = format!("{} listed", format_count(number, "actor"));
        let answer = CommandAnswer::new(data, view).with_message(MessageLevel::Info, said);
        match all.len() - seen.len() {
            0 if all.len() == built_in => {
                answer.with_message(MessageLevel::Hint, "agents actor add --config FILE")
            }
            0 => answer,
            more => {
                let text = format!("{more} more: use --limit {}", all.len());
                answer.with_message(MessageLevel::Hint, text)
            }
        }
    }
}

fn is_built_in(registered: &RegisteredActor) -> bool {
    matches!(registered, RegisteredActor::BuiltIn(_))
}

fn data(registered: &RegisteredActor) -> Value {
    let actor = registered.actor();
    json!({
        "name": actor.name,
        "provider": model::provider(actor),
        "model": model::model(actor),
        "default": false,
        "unsafe": false,
        "type": actor.kind.actor_type(),
        "built_in": is_built_in(registered),
        "description": actor.description,
        "steps": actor.steps().len(),
    })
}

fn row(registered: &RegisteredActor) -> Vec<ViewCell> {
    let actor = registered.actor();
    let kind = if is_built_in(registered) {
        ViewCell::new("built in", Tone::Faint)
    } else {
        ViewCell::from("custom")
    };
    let steps = match actor.steps().len() {
        0 => String::new(),
        number => number.to_string(),
    };
    vec![
        ViewCell::new(actor.name.to_string(), Tone::Strong),
        actor.kind.actor_type().to_string().into(),
        kind,
        model::cell(actor),
        steps.into(),
        actor.description.clone().into(),
    ]
}

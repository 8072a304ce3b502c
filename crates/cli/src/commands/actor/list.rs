//! `agents actor list`

use clap::Args;
use cleveragents_api::actor::{ActorList, ActorSummary};
use cleveragents_domain::ActorType;

use crate::argument_types::{parse_limit, parse_value};
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell};

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
    #[arg(long, value_name = "NUMBER", value_parser = parse_limit)]
    limit: Option<usize>,
}

const HEADERS: [&str; 6] = ["name", "type", "kind", "model", "steps", "description"];

impl ActorListArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let reply = context.call(ActorList {
            pattern: self.pattern.clone(),
            actor_type: self.actor_type,
            limit: self.limit,
        })?;
        let total = reply.answer.summary.total;
        let listed = self.limit.unwrap_or(DEFAULT_ROWS);
        let answer = CommandAnswer::from_reply(reply, |page| {
            let rows = page.actors.iter().take(listed).map(row);
            OutputView::new().table("Actors", &HEADERS, rows)
        })?;
        Ok(match total.saturating_sub(listed) {
            0 => answer,
            more => answer.with_message(
                MessageLevel::Hint,
                format!("{more} more: use --limit {total}"),
            ),
        })
    }
}

fn row(actor: &ActorSummary) -> Vec<ViewCell> {
    let kind = if actor.built_in {
        ViewCell::new("built in", Tone::Faint)
    } else {
        ViewCell::from("custom")
    };
    let model = match (&actor.provider, &actor.model) {
        (Some(provider), Some(model)) => format!("{provider}/{model}").into(),
        _ if actor.actor_type == ActorType::Llm => ViewCell::new("the default", Tone::Faint),
        _ => ViewCell::from(""),
    };
    let steps = match actor.steps {
        0 => String::new(),
        number => number.to_string(),
    };
    vec![
        ViewCell::new(actor.name.to_string(), Tone::Strong),
        actor.actor_type.to_string().into(),
        kind,
        model,
        steps.into(),
        actor.description.clone().into(),
    ]
}

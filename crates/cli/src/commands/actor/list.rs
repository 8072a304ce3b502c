//! `agents actor list`

use clap::Args;
use cleveragents_domain::ActorType;
use cleveragents_engine::actors::RegisteredActor;
use serde_json::{Value, json};

use super::model;
use crate::commands::Context;
use crate::failure::Failure;
use crate::name_pattern::NamePattern;
use crate::names;
use crate::output::{Answer, Cell, Level, Tone, View, counted};
use crate::typed::word;

/// How many rows people see unless they ask for another number.
const SHOWN: usize = 100;

/// List actors by name, the built-in ones among them
///
/// JSON and YAML carry all of them unless --limit is given; people see the first 100.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents actor list
  agents actor list --type llm
  agents actor list '^local/'
  agents actor list --limit 10 --format json")]
pub struct List {
    /// Only names that match this regular expression, whatever the case of its letters
    #[arg(value_name = "REGEX")]
    pattern: Option<String>,

    /// Only actors of this type: llm, tool or graph
    #[arg(long = "type", value_name = "TYPE", value_parser = word::<ActorType>)]
    actor_type: Option<ActorType>,

    /// List at most this many
    #[arg(long, value_name = "NUMBER")]
    limit: Option<usize>,
}

impl List {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let pattern = self.pattern.as_deref().map(names::pattern).transpose()?;
        let wiring = context.wiring()?;
        let wired = wiring.open_to_read()?;
        let mut all = wired.wait(wired.actors().actors())?;
        all.retain(|each| {
            let actor = each.actor();
            let is_type = |wanted| wanted == actor.kind.actor_type();
            self.actor_type.is_none_or(is_type)
                && pattern.as_ref().is_none_or(|it| it.matches(&actor.name))
        });
        Ok(self.answer(&all, pattern.as_ref()))
    }

    fn answer(&self, all: &[RegisteredActor], pattern: Option<&NamePattern>) -> Answer {
        let listed = &all[..all.len().min(self.limit.unwrap_or(usize::MAX))];
        let seen = &all[..all.len().min(self.limit.unwrap_or(SHOWN))];
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
        let view = View::new().table("Actors", &headers, seen.iter().map(row));
        let number = i64::try_from(listed.len()).unwrap_or(i64::MAX);
        let said = format!("{} listed", counted(number, "actor"));
        let answer = Answer::new(data, view).say(Level::Info, said);
        match all.len() - seen.len() {
            0 if all.len() == built_in => answer.say(Level::Hint, "agents actor add --config FILE"),
            0 => answer,
            more => {
                let text = format!("{more} more: repeat it with --limit {}", all.len());
                answer.say(Level::Hint, text)
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

fn row(registered: &RegisteredActor) -> Vec<Cell> {
    let actor = registered.actor();
    let kind = match is_built_in(registered) {
        true => Cell::new("built in", Tone::Faint),
        false => Cell::from("custom"),
    };
    let steps = match actor.steps().len() {
        0 => String::new(),
        number => number.to_string(),
    };
    vec![
        Cell::new(actor.name.to_string(), Tone::Strong),
        actor.kind.actor_type().to_string().into(),
        kind,
        model::cell(actor),
        steps.into(),
        actor.description.clone().into(),
    ]
}

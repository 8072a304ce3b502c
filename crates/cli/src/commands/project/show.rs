//! `agents project show`

use clap::Args;
use cleveragents_engine::projects::ProjectView;
use serde_json::json;

use super::{data, rule, view};
use crate::commands::Context;
use crate::commands::resource::resource_data;
use crate::failure::Failure;
use crate::names;
use crate::output::{Answer, Level};

/// Show a project with its resources, invariants and plans
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents project show shop
  agents project show team/shop --format json")]
pub struct Show {
    /// The project
    name: String,
}

impl Show {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let name = names::name("project", &self.name)?;
        let wiring = context.wiring()?;
        let wired = wiring.open_to_read()?;
        let found = wired.wait(wired.projects().show(name))?;
        Ok(answer(&found))
    }
}

fn answer(found: &ProjectView) -> Answer {
    let total: u64 = found.plans.values().sum();
    let json = json!({
        "project": data(&found.project),
        "resources": found.resources.iter().map(resource_data).collect::<Vec<_>>(),
        "invariants": found.invariants.iter().map(rule).collect::<Vec<_>>(),
        "plans": {"total": total, "by_state": found.plans},
    });
    let states = found.plans.iter();
    let states: Vec<String> = states
        .map(|(state, count)| format!("{count} {state}"))
        .collect();
    let plans = match total {
        0 => "none".to_owned(),
        _ => states.join(", "),
    };
    let view = view(
        &found.project,
        &found.resources,
        &found.invariants,
        Some(plans),
    );
    let answer = Answer::new(json, view);
    match found.resources.is_empty() {
        true => answer.say(
            Level::Hint,
            format!(
                "agents project link-resource {} RESOURCE",
                found.project.name
            ),
        ),
        false => answer,
    }
}

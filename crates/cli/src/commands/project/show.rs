//! `agents project show`

use clap::Args;
use cleveragents_engine::projects::ProjectView;
use serde_json::json;

use super::{data, rule, view};
use crate::commands::CommandContext;
use crate::commands::resource::resource_data;
use crate::failure::CommandFailure;
use crate::names;
use crate::output::{CommandAnswer, MessageLevel};

/// Show a project with its resources, invariants and plans
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents project show shop
  agents project show team/shop --format json")]
pub struct ProjectShowArgs {
    /// The project
    name: String,
}

impl ProjectShowArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let name = names::parse_name("project", &self.name)?;
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_to_read()?;
        let found = app.block_on(app.projects().show(name))?;
        Ok(answer(&found))
    }
}

fn answer(found: &ProjectView) -> CommandAnswer {
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
    let answer = CommandAnswer::new(json, view);
    if found.resources.is_empty() {
        answer.with_message(
            MessageLevel::Hint,
            format!(
                "agents project link-resource {} RESOURCE",
                found.project.name
            ),
        )
    } else {
        answer
    }
}

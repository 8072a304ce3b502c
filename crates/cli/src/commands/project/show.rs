//! `agents project show`

use clap::Args;
use cleveragents_api::project::{ProjectContents, ProjectShow};

use super::view;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::names;
use crate::output::{CommandAnswer, OutputView};

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
        let reply = context.call(ProjectShow {
            name: names::parse_name("project", &self.name)?,
        })?;
        CommandAnswer::from_reply(reply, contents)
    }
}

fn contents(found: &ProjectContents) -> OutputView {
    let states = found.plans.by_state.iter();
    let states: Vec<String> = states
        .map(|(state, count)| format!("{count} {state}"))
        .collect();
    let plans = match found.plans.total {
        0 => "none".to_owned(),
        _ => states.join(", "),
    };
    let view = view::project(&found.project, Some(plans));
    view::invariants(view::resources(view, &found.resources), &found.invariants)
}

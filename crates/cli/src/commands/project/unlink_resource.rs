//! `agents project unlink-resource`

use clap::Args;
use cleveragents_engine::projects::UnlinkOutcome;
use serde_json::json;

use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::names;
use crate::output::{CommandAnswer, MessageLevel, OutputView};

/// Unlink a resource from a project; it stays registered
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents project unlink-resource shop local/library")]
pub struct ProjectUnlinkResourceArgs {
    /// The project
    project: String,

    /// The resource
    resource: String,
}

impl ProjectUnlinkResourceArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let project = names::parse_name("project", &self.project)?;
        let resource = names::parse_name("resource", &self.resource)?;
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open()?;
        let service = app.projects();
        let unlinking = service.unlink(project.clone(), resource.clone(), app.actor());
        let unlinking = app.block_on(unlinking)?;
        let rows = [
            ("project", project.to_string()),
            ("resource", resource.to_string()),
        ];
        let json = json!({
            "project": project,
            "resource": resource,
            "changed": unlinking == UnlinkOutcome::Done,
        });
        let said = match unlinking {
            UnlinkOutcome::Done => format!("{resource} unlinked from {project}"),
            UnlinkOutcome::Unchanged => format!("{resource} was not linked to {project}"),
        };
        let answer = CommandAnswer::new(json, OutputView::new().panel("Unlink", rows));
        Ok(answer.with_message(MessageLevel::Info, said))
    }
}

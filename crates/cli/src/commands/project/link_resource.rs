//! `agents project link-resource`

use clap::Args;
use cleveragents_engine::projects::LinkOutcome;
use serde_json::json;

use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::names;
use crate::output::{CommandAnswer, MessageLevel, OutputView};

/// Link a resource to a project
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents project link-resource shop local/library")]
pub struct ProjectLinkResourceArgs {
    /// The project
    project: String,

    /// The resource
    resource: String,
}

impl ProjectLinkResourceArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let project = names::parse_name("project", &self.project)?;
        let resource = names::parse_name("resource", &self.resource)?;
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open()?;
        let service = app.projects();
        let linking = service.link(project.clone(), resource.clone(), app.actor());
        let linking = app.block_on(linking)?;
        let rows = [
            ("project", project.to_string()),
            ("resource", resource.to_string()),
        ];
        let json = json!({
            "project": project,
            "resource": resource,
            "changed": linking == LinkOutcome::New,
        });
        let said = match linking {
            LinkOutcome::New => format!("{resource} linked to {project}"),
            LinkOutcome::Unchanged => format!("{resource} is already linked to {project}"),
        };
        let answer = CommandAnswer::new(json, OutputView::new().panel("Link", rows));
        Ok(answer.with_message(MessageLevel::Info, said))
    }
}

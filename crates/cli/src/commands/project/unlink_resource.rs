//! `agents project unlink-resource`

use clap::Args;
use cleveragents_api::project::ProjectUnlinkResource;

use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::names;
use crate::output::{CommandAnswer, OutputView};

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
        let reply = context.call(ProjectUnlinkResource {
            project: names::parse_name("project", &self.project)?,
            resource: names::parse_name("resource", &self.resource)?,
        })?;
        CommandAnswer::from_reply(reply, |link| {
            let rows = [
                ("project", link.project.to_string()),
                ("resource", link.resource.to_string()),
            ];
            OutputView::new().panel("Unlink", rows)
        })
    }
}

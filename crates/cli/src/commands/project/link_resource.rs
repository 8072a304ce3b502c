//! `agents project link-resource`

use clap::Args;
use cleveragents_api::project::ProjectLinkResource;

use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::names;
use crate::output::{CommandAnswer, OutputView};

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
        let reply = context.call(ProjectLinkResource {
            project: names::parse_name("project", &self.project)?,
            resource: names::parse_name("resource", &self.resource)?,
        })?;
        CommandAnswer::from_reply(reply, |link| {
            let rows = [
                ("project", link.project.to_string()),
                ("resource", link.resource.to_string()),
            ];
            OutputView::new().panel("Link", rows)
        })
    }
}

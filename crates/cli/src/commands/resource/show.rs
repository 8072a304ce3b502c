//! `agents resource show`

use clap::Args;
use cleveragents_api::resource::{LinkedResource, ResourceShow};

use super::join_names;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::names;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell};

/// Show a resource and the projects it is linked to
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents resource show local/library")]
pub struct ResourceShowArgs {
    /// The resource
    name: String,
}

impl ResourceShowArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let reply = context.call(ResourceShow {
            name: names::parse_name("resource", &self.name)?,
        })?;
        CommandAnswer::from_reply(reply, view)
    }
}

fn view(found: &LinkedResource) -> OutputView {
    let resource = &found.resource;
    let projects = if found.projects.is_empty() {
        ViewCell::new("none", Tone::Faint)
    } else {
        join_names(&found.projects).into()
    };
    let rows = [
        (
            "name",
            ViewCell::new(resource.name.to_string(), Tone::Strong),
        ),
        ("type", resource.resource_type.as_str().into()),
        ("sandbox", resource.sandbox.as_str().into()),
        ("path", resource.path.to_string().into()),
        ("projects", projects),
        ("created", ViewCell::time(resource.created_at, Tone::Normal)),
    ];
    OutputView::new().panel("Resource", rows)
}

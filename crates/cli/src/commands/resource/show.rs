//! `agents resource show`

use clap::Args;
use cleveragents_engine::projects::ResourceView;

use super::{join_names, sandbox_strategy, view_data};
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::names;
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell};

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
        let name = names::parse_name("resource", &self.name)?;
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_to_read()?;
        let found = app.block_on(app.projects().show_resource(name))?;
        Ok(answer(&found))
    }
}

fn answer(found: &ResourceView) -> CommandAnswer {
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
        ("sandbox", sandbox_strategy(resource.resource_type).into()),
        ("path", resource.path.to_string().into()),
        ("projects", projects),
        ("created", resource.created_at.to_string().into()),
    ];
    let answer = CommandAnswer::new(view_data(found), OutputView::new().panel("Resource", rows));
    if found.projects.is_empty() {
        answer.with_message(
            MessageLevel::Hint,
            format!("agents project link-resource PROJECT {}", resource.name),
        )
    } else {
        answer
    }
}

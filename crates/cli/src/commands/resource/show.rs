//! `agents resource show`

use clap::Args;
use cleveragents_engine::projects::ResourceView;

use super::{joined, sandbox, view_data};
use crate::commands::Context;
use crate::failure::Failure;
use crate::names;
use crate::output::{Answer, Cell, Level, Tone, View};

/// Show a resource and the projects it is linked to
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents resource show local/library")]
pub struct Show {
    /// The resource
    name: String,
}

impl Show {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let name = names::name("resource", &self.name)?;
        let wiring = context.wiring()?;
        let wired = wiring.open_to_read()?;
        let found = wired.wait(wired.projects().show_resource(name))?;
        Ok(answer(&found))
    }
}

fn answer(found: &ResourceView) -> Answer {
    let resource = &found.resource;
    let projects = match found.projects.is_empty() {
        true => Cell::new("none", Tone::Faint),
        false => joined(&found.projects).into(),
    };
    let rows = [
        ("name", Cell::new(resource.name.to_string(), Tone::Strong)),
        ("type", resource.resource_type.as_str().into()),
        ("sandbox", sandbox(resource.resource_type).into()),
        ("path", resource.path.to_string().into()),
        ("projects", projects),
        ("created", resource.created_at.to_string().into()),
    ];
    let answer = Answer::new(view_data(found), View::new().panel("Resource", rows));
    match found.projects.is_empty() {
        true => answer.say(
            Level::Hint,
            format!("agents project link-resource PROJECT {}", resource.name),
        ),
        false => answer,
    }
}

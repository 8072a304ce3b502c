//! `agents project link-resource`

use clap::Args;
use cleveragents_engine::projects::Linking;
use serde_json::json;

use crate::commands::Context;
use crate::failure::Failure;
use crate::names;
use crate::output::{Answer, Level, View};

/// Link a resource to a project
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents project link-resource shop local/library")]
pub struct LinkResource {
    /// The project
    project: String,

    /// The resource
    resource: String,
}

impl LinkResource {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let project = names::name("project", &self.project)?;
        let resource = names::name("resource", &self.resource)?;
        let wiring = context.wiring()?;
        let wired = wiring.open()?;
        let service = wired.projects();
        let linking = service.link(project.clone(), resource.clone(), wired.actor());
        let linking = wired.wait(linking)?;
        let rows = [
            ("project", project.to_string()),
            ("resource", resource.to_string()),
        ];
        let json = json!({
            "project": project,
            "resource": resource,
            "changed": linking == Linking::New,
        });
        let said = match linking {
            Linking::New => format!("{resource} linked to {project}"),
            Linking::Stands => format!("{resource} was linked to {project} before"),
        };
        let answer = Answer::new(json, View::new().panel("Link", rows));
        Ok(answer.say(Level::Info, said))
    }
}

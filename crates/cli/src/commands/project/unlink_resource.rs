//! `agents project unlink-resource`

use clap::Args;
use cleveragents_engine::projects::Unlinking;
use serde_json::json;

use crate::commands::Context;
use crate::failure::Failure;
use crate::names;
use crate::output::{Answer, Level, View};

/// Take a resource out of a project; it stays registered
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents project unlink-resource shop local/library")]
pub struct UnlinkResource {
    /// The project
    project: String,

    /// The resource
    resource: String,
}

impl UnlinkResource {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let project = names::name("project", &self.project)?;
        let resource = names::name("resource", &self.resource)?;
        let wiring = context.wiring()?;
        let wired = wiring.open()?;
        let service = wired.projects();
        let unlinking = service.unlink(project.clone(), resource.clone(), wired.actor());
        let unlinking = wired.wait(unlinking)?;
        let rows = [
            ("project", project.to_string()),
            ("resource", resource.to_string()),
        ];
        let json = json!({
            "project": project,
            "resource": resource,
            "changed": unlinking == Unlinking::Done,
        });
        let said = match unlinking {
            Unlinking::Done => format!("{resource} unlinked from {project}"),
            Unlinking::Stands => format!("{resource} was not linked to {project}"),
        };
        let answer = Answer::new(json, View::new().panel("Unlink", rows));
        Ok(answer.say(Level::Info, said))
    }
}

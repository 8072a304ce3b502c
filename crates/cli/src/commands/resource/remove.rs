//! `agents resource remove`

use clap::Args;
use serde_json::json;

use super::resource_data;
use crate::commands::Context;
use crate::failure::Failure;
use crate::names;
use crate::output::{Answer, Level, View};

/// Take a resource off the register; its files stay
///
/// One that is linked to a project is refused.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents resource remove local/library")]
pub struct Remove {
    /// The resource
    name: String,
}

impl Remove {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let name = names::name("resource", &self.name)?;
        let wiring = context.wiring()?;
        let wired = wiring.open()?;
        let service = wired.projects();
        let removed = service.remove_resource(name, wired.actor());
        let removed = wired.wait(removed)?;
        let rows = [
            ("name", removed.name.to_string()),
            ("path", removed.path.to_string()),
        ];
        let view = View::new().panel("Removed", rows);
        let said = format!("resource {} removed, its files stay", removed.name);
        let json = json!({"removed": resource_data(&removed)});
        Ok(Answer::new(json, view).say(Level::Info, said))
    }
}

//! `agents resource remove`

use clap::Args;
use serde_json::json;

use super::resource_data;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::names;
use crate::output::{CommandAnswer, MessageLevel, OutputView};

/// Unregister a resource; its files are kept
///
/// Fails if it is linked to a project.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents resource remove local/library")]
pub struct ResourceRemoveArgs {
    /// The resource
    name: String,
}

impl ResourceRemoveArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let name = names::parse_name("resource", &self.name)?;
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open()?;
        let service = app.projects();
        let removed = service.remove_resource(name, app.actor());
        let removed = app.block_on(removed)?;
        let rows = [
            ("name", removed.name.to_string()),
            ("path", removed.path.to_string()),
        ];
        let view = OutputView::new().panel("Removed", rows);
        let said = format!("resource {} removed, its files stay", removed.name);
        let json = json!({"removed": resource_data(&removed)});
        Ok(CommandAnswer::new(json, view).with_message(MessageLevel::Info, said))
    }
}

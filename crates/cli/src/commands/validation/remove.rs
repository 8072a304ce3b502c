//! `agents validation remove`

use clap::Args;
use serde_json::json;

use super::{registry_failure, view};
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::names;
use crate::output::{CommandAnswer, MessageLevel};

/// Remove a validation
///
/// Fails if it is attached. Detach it first.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents validation remove local/tests")]
pub struct ValidationRemoveArgs {
    /// The name of the validation
    #[arg(value_name = "NAME")]
    name: String,
}

impl ValidationRemoveArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let name = names::parse_name("validation", &self.name)?;
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open()?;
        let removed = app.block_on(app.validations().remove(name.clone(), app.actor()));
        let row = removed.map_err(|error| registry_failure(error, &name, &app))?;
        let data = json!({"validation_removed": view::data(&row)});
        let view = view::panel("Validation removed", &row);
        Ok(CommandAnswer::new(data, view).with_message(MessageLevel::Info, "Validation removed"))
    }
}

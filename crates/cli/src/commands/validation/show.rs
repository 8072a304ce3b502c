//! `agents validation show`

use clap::Args;
use serde_json::{Value, json};

use super::{registry_failure, view};
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::names;
use crate::output::{CommandAnswer, MessageLevel};

/// Show a validation: what it runs, and where it is attached
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents validation show local/tests
  agents validation show tests --format json")]
pub struct ValidationShowArgs {
    /// The name of the validation
    #[arg(value_name = "NAME")]
    name: String,
}

impl ValidationShowArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let name = names::parse_name("validation", &self.name)?;
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_to_read()?;
        let found = app.block_on(app.validations().validation(name.clone()));
        let (row, attachments) = found.map_err(|error| registry_failure(error, &name, &app))?;
        let data = json!({
            "validation": view::data(&row),
            "attachments": attachments.iter().map(view::attachment_data).collect::<Vec<Value>>(),
        });
        let mut shown = view::panel("Validation", &row);
        if !attachments.is_empty() {
            let rows = attachments.iter().map(view::attachment_row);
            shown = shown.table("Attachments", &view::ATTACHMENT_HEADERS, rows);
        }
        let answer = CommandAnswer::new(data, shown);
        Ok(if attachments.is_empty() {
            answer.with_message(
                MessageLevel::Hint,
                format!("agents validation attach RESOURCE {name}"),
            )
        } else {
            answer
        })
    }
}

//! `agents validation show`

use clap::Args;
use serde_json::{Value, json};

use super::{refused, view};
use crate::commands::Context;
use crate::failure::Failure;
use crate::names;
use crate::output::{Answer, Level};

/// Show a validation: what it runs, and where it is attached
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents validation show local/tests
  agents validation show tests --format json")]
pub struct Show {
    /// The name of the validation
    #[arg(value_name = "NAME")]
    name: String,
}

impl Show {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let name = names::name("validation", &self.name)?;
        let wiring = context.wiring()?;
        let wired = wiring.open_to_read()?;
        let found = wired.wait(wired.validations().validation(name.clone()));
        let (row, attachments) = found.map_err(|error| refused(error, &name, &wired))?;
        let data = json!({
            "validation": view::data(&row),
            "attachments": attachments.iter().map(view::attachment_data).collect::<Vec<Value>>(),
        });
        let mut shown = view::panel("Validation", &row);
        if !attachments.is_empty() {
            let rows = attachments.iter().map(view::attachment_row);
            shown = shown.table("Attachments", &view::ATTACHMENT_HEADERS, rows);
        }
        let answer = Answer::new(data, shown).say(Level::Info, "Validation shown");
        Ok(match attachments.is_empty() {
            true => answer.say(
                Level::Hint,
                format!("agents validation attach RESOURCE {name}"),
            ),
            false => answer,
        })
    }
}

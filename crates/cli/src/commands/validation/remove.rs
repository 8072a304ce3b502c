//! `agents validation remove`

use clap::Args;
use serde_json::json;

use super::{refused, view};
use crate::commands::Context;
use crate::failure::Failure;
use crate::names;
use crate::output::{Answer, Level};

/// Remove a validation
///
/// One that is attached is refused: a gate does not disappear unnoticed. Detach it first.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents validation remove local/tests")]
pub struct Remove {
    /// The name of the validation
    #[arg(value_name = "NAME")]
    name: String,
}

impl Remove {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let name = names::name("validation", &self.name)?;
        let wiring = context.wiring()?;
        let wired = wiring.open()?;
        let removed = wired.wait(wired.validations().remove(name.clone(), wired.actor()));
        let row = removed.map_err(|error| refused(error, &name, &wired))?;
        let data = json!({"validation_removed": view::data(&row)});
        let view = view::panel("Validation removed", &row);
        Ok(Answer::new(data, view).say(Level::Info, "Validation removed"))
    }
}

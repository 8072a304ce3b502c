//! `agents validation add`

use std::path::PathBuf;

use clap::Args;
use cleveragents_engine::StoreError;
use cleveragents_engine::actors::{Change, Update};
use cleveragents_engine::definitions::read_validation;
use cleveragents_engine::validations::ValidationRegistryError;
use serde_json::json;

use super::view;
use crate::commands::Context;
use crate::definition_failure::taken;
use crate::definition_file::DefinitionFile;
use crate::failure::{Failure, shown_path};
use crate::output::{Answer, Level};
use crate::wiring::Wired;

/// Add a validation from its YAML file
///
/// A name that is taken is refused, also with the same content; --update replaces the validation
/// wherever it is attached. Names in `builtin/` are the program's own. ${VAR} in the file is filled
/// in from the environment now, not when the validation runs.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents validation add --config tests.yaml
  agents validation add --config tests.yaml --update
  agents validation add --config - < tests.yaml

For checks and completion while you write, begin the file with this line and the path to
docs/schemas/validation.schema.json:
  # yaml-language-server: $schema=validation.schema.json")]
pub struct Add {
    /// The file; `-` reads standard input
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    config: PathBuf,

    /// Replace a validation of the same name
    #[arg(long)]
    update: bool,
}

impl Add {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let file = DefinitionFile::read(&self.config, context)?;
        let read = file.with(context.environment, read_validation);
        let validation =
            read.map_err(|errors| Failure::from(errors).hint("agents validation add --help"))?;
        let update = match self.update {
            true => Update::Replace,
            false => Update::Refuse,
        };
        let wiring = context.wiring()?;
        let wired = wiring.open()?;
        let added = wired.wait(wired.validations().add(validation, update, wired.actor()));
        let (row, change) = added.map_err(|error| self.refused(error, &wired))?;
        let said = match change {
            Change::Added => "Validation added",
            Change::Updated => "Validation updated",
        };
        let mut data = view::data(&row);
        data["change"] = change.as_str().into();
        let name = &row.validation.name;
        let attach = format!("agents validation attach RESOURCE {name}");
        Ok(
            Answer::new(json!({"validation_added": data}), view::panel(said, &row))
                .say(Level::Info, said)
                .say(Level::Hint, attach),
        )
    }

    /// A taken name is answered with the command that replaces what has it.
    fn refused(&self, error: ValidationRegistryError, wired: &Wired<'_>) -> Failure {
        let ValidationRegistryError::Store(StoreError::Taken { name, .. }) = &error else {
            return error.into();
        };
        let known = name
            .parse()
            .map(|name| wired.wait(wired.validations().validation(name)));
        let since = match known {
            Ok(Ok((row, _))) => Some(row.created_at),
            _ => None,
        };
        let file = shown_path(&self.config);
        taken("validation", name, since)
            .hint(format!("agents validation add --config {file} --update"))
            .hint(format!("agents validation show {name}"))
    }
}

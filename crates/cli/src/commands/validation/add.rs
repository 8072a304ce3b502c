//! `agents validation add`

use std::path::PathBuf;

use clap::Args;
use cleveragents_definitions::read_validation;
use cleveragents_engine::actors::{DuplicatePolicy, RegistryChange};
use cleveragents_engine::validations::ValidationRegistryError;
use cleveragents_ports::StoreError;
use serde_json::json;

use super::view;
use crate::bootstrap::AppContext;
use crate::commands::CommandContext;
use crate::definition_file::DefinitionFile;
use crate::failure::{CommandFailure, display_path};
use crate::output::{CommandAnswer, MessageLevel};
use cleveragents_app::failure::name_taken_failure;

/// Add a validation from its YAML file
///
/// Fails if the name is taken, also with the same content; --update replaces the validation
/// wherever it is attached. Names in `builtin/` are reserved. ${VAR} in the file is replaced from
/// the environment now, not when the validation runs.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents validation add --config tests.yaml
  agents validation add --config tests.yaml --update
  agents validation add --config - < tests.yaml

For checks and completion while you write, begin the file with this line and the path to
docs/schemas/validation.schema.json:
  # yaml-language-server: $schema=validation.schema.json")]
pub struct ValidationAddArgs {
    /// The file; `-` reads standard input
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    config: PathBuf,

    /// Replace a validation of the same name
    #[arg(long)]
    update: bool,
}

impl ValidationAddArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let file = DefinitionFile::read(&self.config, context)?;
        let read = file.parse_with(context.environment, read_validation);
        let validation = read
            .map_err(|errors| CommandFailure::from(errors).hint("agents validation add --help"))?;
        let update = if self.update {
            DuplicatePolicy::Replace
        } else {
            DuplicatePolicy::Refuse
        };
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open()?;
        let added = app.block_on(app.validations().add(validation, update, app.actor()));
        let (row, change) = added.map_err(|error| self.add_failure(error, &app))?;
        let said = match change {
            RegistryChange::Added => "Validation added",
            RegistryChange::Updated => "Validation updated",
        };
        let mut data = view::data(&row);
        data["change"] = change.as_str().into();
        let name = &row.validation.name;
        let attach = format!("agents validation attach RESOURCE {name}");
        Ok(
            CommandAnswer::new(json!({"validation_added": data}), view::panel(said, &row))
                .with_message(MessageLevel::Info, said)
                .with_message(MessageLevel::Hint, attach),
        )
    }

    /// Adds the command that replaces the existing validation to the failure for a taken name.
    fn add_failure(&self, error: ValidationRegistryError, app: &AppContext<'_>) -> CommandFailure {
        let ValidationRegistryError::Store(StoreError::Taken { name, .. }) = &error else {
            return error.into();
        };
        let known = name
            .parse()
            .map(|name| app.block_on(app.validations().validation(name)));
        let since = match known {
            Ok(Ok((row, _))) => Some(row.created_at),
            _ => None,
        };
        let file = display_path(&self.config);
        name_taken_failure("validation", name, since)
            .hint(format!("agents validation add --config {file} --update"))
            .hint(format!("agents validation show {name}"))
    }
}

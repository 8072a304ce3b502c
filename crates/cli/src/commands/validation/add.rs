//! `agents validation add`

use std::path::PathBuf;

use clap::Args;
use cleveragents_api::definition_change::DefinitionChange;
use cleveragents_api::validation::ValidationAdd;
use cleveragents_app::read_validation_to_add;

use super::view;
use crate::commands::CommandContext;
use crate::definition_file::DefinitionFile;
use crate::failure::CommandFailure;
use crate::output::CommandAnswer;

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
        let request = ValidationAdd {
            config: file.into_text(context.environment),
            update: self.update,
        };
        // Before the call, which creates the data directory.
        read_validation_to_add(&request)?;
        let reply = context.call(request)?;
        CommandAnswer::from_reply(reply, |answer| {
            let added = &answer.validation_added;
            let title = match added.change {
                DefinitionChange::Added => "Validation added",
                DefinitionChange::Updated => "Validation updated",
            };
            view::panel(title, &added.validation)
        })
    }
}

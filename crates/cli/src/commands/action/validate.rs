//! `agents action validate`

use std::path::PathBuf;

use clap::Args;
use cleveragents_api::action::ActionValidate;
use cleveragents_app::validate_action;

use crate::commands::CommandContext;
use crate::definition_file::DefinitionFile;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView};

/// Check an action's file and report every problem
///
/// Writes nothing and opens no database. Each problem is reported with its line and column.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents action validate coverage.yaml
  agents action validate - < coverage.yaml
  agents action validate .agents/actions/lint.yaml --format json

For checks and completion while you write, begin the file with this line and the path to
docs/schemas/action.schema.json:
  # yaml-language-server: $schema=action.schema.json")]
pub struct ActionValidateArgs {
    /// The file; `-` reads standard input
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
}

impl ActionValidateArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let file = DefinitionFile::read(&self.file, context)?;
        let reply = validate_action(&ActionValidate {
            file: file.into_text(context.environment),
        })?;
        CommandAnswer::from_reply(reply, |valid| {
            let rows = [
                ("file", valid.file.clone()),
                ("action", valid.name.to_string()),
                ("arguments", valid.arguments.to_string()),
            ];
            OutputView::new().panel("Valid", rows)
        })
    }
}

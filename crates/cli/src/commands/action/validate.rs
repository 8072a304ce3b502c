//! `agents action validate`

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::commands::CommandContext;
use crate::definition_file::DefinitionFile;
use crate::failure::{CommandFailure, display_path};
use crate::output::{CommandAnswer, MessageLevel, OutputView};

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
        let read = file.action(context.environment);
        let draft = read.map_err(|errors| {
            CommandFailure::from(errors).hint("fix the file, then validate it again")
        })?;
        let name = draft.name.to_string();
        let data = json!({"valid": true, "file": file.name, "name": name, "problems": []});
        let rows = [
            ("file", file.name.clone()),
            ("action", name),
            ("arguments", draft.arguments.len().to_string()),
        ];
        let create = format!("agents action create --config {}", display_path(&self.file));
        Ok(
            CommandAnswer::new(data, OutputView::new().panel("Valid", rows))
                .with_message(MessageLevel::Info, "The action is valid")
                .with_message(MessageLevel::Hint, create),
        )
    }
}

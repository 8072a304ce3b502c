//! `agents action create`

use std::path::PathBuf;

use clap::Args;
use cleveragents_api::action::ActionCreate;

use super::view;
use crate::commands::CommandContext;
use crate::definition_file::DefinitionFile;
use crate::failure::CommandFailure;
use crate::output::CommandAnswer;

/// Register an action from its YAML file
///
/// Fails if the name is already registered, also with the same content; --update replaces it.
/// Existing plans keep the version they were created with. ${VAR} in the file is replaced from the
/// environment now, not when the action is used.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents action create --config coverage.yaml
  agents action create --config coverage.yaml --update
  agents action create --config - < coverage.yaml")]
pub struct ActionCreateArgs {
    /// The file; `-` reads standard input
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    config: PathBuf,

    /// Replace an action of the same name
    #[arg(long)]
    update: bool,
}

impl ActionCreateArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let file = DefinitionFile::read(&self.config, context)?;
        let reply = context.call(ActionCreate {
            config: file.into_text(context.environment),
            update: self.update,
        })?;
        CommandAnswer::from_reply(reply, |action| {
            let title = match action.version {
                Some(1) => "Action created",
                _ => "Action updated",
            };
            view::panels(title, action)
        })
    }
}

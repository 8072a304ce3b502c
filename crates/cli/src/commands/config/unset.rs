//! `agents config unset`

use clap::Args;
use serde::Serialize;

use super::{parse_key, target_file};
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel, OutputView};
use crate::settings::file;

/// Remove a setting from your config.toml, or from the project's
///
/// The next source applies then. Unknown names can be removed too.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents config unset plan.concurrency
  agents config unset core.automation-profile --project")]
pub struct ConfigUnsetArgs {
    /// The name of the setting
    #[arg(value_name = "KEY")]
    key: String,

    /// Change the project's .agents/config.toml instead of your own file
    #[arg(long)]
    project: bool,
}

#[derive(Debug, Serialize)]
struct ConfigUnsetAnswer<'a> {
    key: &'a str,
    removed: bool,
    /// The settings file.
    origin: &'a str,
}

impl ConfigUnsetArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let (path, owner) = target_file(&context.locations()?, self.project)?;
        let removed = file::unset(&path, owner, &self.key)?;
        if !removed {
            // A name that is neither set nor known is an error; a known one needs no change.
            parse_key(&self.key)?;
        }
        let path = path.display().to_string();
        let data = ConfigUnsetAnswer {
            key: &self.key,
            removed,
            origin: &path,
        };
        let rows = [
            ("key", self.key.clone()),
            ("removed", removed.to_string()),
            ("file", path.clone()),
        ];
        let (title, message) = if removed {
            ("Setting removed", format!("{} removed", self.key))
        } else {
            ("Nothing to remove", format!("{} was not set", self.key))
        };
        let answer = CommandAnswer::new(&data, OutputView::new().panel(title, rows))?;
        Ok(answer.with_message(MessageLevel::Info, message))
    }
}

//! `agents config unset`

use clap::Args;
use serde_json::json;

use super::{key, target};
use crate::commands::Context;
use crate::failure::Failure;
use crate::output::{Answer, Level, View};
use crate::settings::file;

/// Remove a setting from your config.toml, or from the project's
///
/// It then comes from the next source. Names this version does not know can be removed too.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents config unset plan.concurrency
  agents config unset core.automation-profile --project")]
pub struct Unset {
    /// The name of the setting
    #[arg(value_name = "KEY")]
    key: String,

    /// Change .agents/config.toml of the project instead of your own file
    #[arg(long)]
    project: bool,
}

impl Unset {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let (path, owner) = target(&context.locations()?, self.project)?;
        let removed = file::unset(&path, owner, &self.key)?;
        if !removed {
            // A name that is neither known nor there is a mistake; a known one is done already.
            key(&self.key)?;
        }
        let path = path.display().to_string();
        let data = json!({"key": self.key, "removed": removed, "origin": path});
        let rows = [
            ("key", self.key.clone()),
            ("removed", removed.to_string()),
            ("file", path),
        ];
        let (title, message) = match removed {
            true => ("Setting removed", format!("{} removed", self.key)),
            false => ("Nothing to remove", format!("{} was not set", self.key)),
        };
        Ok(Answer::new(data, View::new().panel(title, rows)).say(Level::Info, message))
    }
}

//! `agents actor validate`

use std::path::PathBuf;

use clap::Args;
use cleveragents_engine::definitions::read_actor;
use serde_json::json;

use crate::commands::Context;
use crate::definition_file::DefinitionFile;
use crate::failure::{Failure, shown_path};
use crate::output::{Answer, Level, View};

/// Check an actor's file and say everything that is wrong with it
///
/// Nothing is written and no database is opened. Each problem is told with its line and column.
/// That the tools it calls are there is checked when a plan starts.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents actor validate --config greeter.yaml
  agents actor validate --config - < greeter.yaml
  agents actor validate --config greeter.yaml --format json")]
pub struct Validate {
    /// The file; `-` reads standard input
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    config: PathBuf,
}

impl Validate {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let file = DefinitionFile::read(&self.config, context)?;
        let read = file.with(context.environment, read_actor);
        let actor = read.map_err(|errors| {
            Failure::from(errors).hint("mend the file, then validate it again")
        })?;
        let name = actor.name.to_string();
        let data = json!({
            "valid": true,
            "file": file.name,
            "name": name,
            "type": actor.kind.actor_type(),
            "steps": actor.steps().len(),
            "problems": [],
        });
        let rows = [
            ("file", file.name.clone()),
            ("actor", name),
            ("type", actor.kind.actor_type().to_string()),
            ("steps", actor.steps().len().to_string()),
        ];
        let add = format!("agents actor add --config {}", shown_path(&self.config));
        Ok(Answer::new(data, View::new().panel("Valid", rows))
            .say(Level::Info, "The actor is valid")
            .say(Level::Hint, add))
    }
}

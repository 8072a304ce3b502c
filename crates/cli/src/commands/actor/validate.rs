//! `agents actor validate`

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::{file, model};
use crate::commands::CommandContext;
use crate::failure::{CommandFailure, display_path};
use crate::output::{CommandAnswer, MessageLevel, OutputView, ViewCell};

/// Check an actor's file and report every problem
///
/// Writes nothing and opens no database. Each problem is reported with its line and column. Whether
/// its tools exist and its model is available is checked when a plan starts.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents actor validate --config greeter.yaml
  agents actor validate --config - < greeter.yaml
  agents actor validate --config greeter.yaml --format json")]
pub struct ActorValidateArgs {
    /// The file; `-` reads standard input
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    config: PathBuf,
}

impl ActorValidateArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let hint = "fix the file, then validate it again";
        let (file, actor) = file::read(&self.config, context, hint)?;
        let name = actor.name.to_string();
        let data = json!({
            "valid": true,
            "file": file.name,
            "name": name,
            "type": actor.kind.actor_type(),
            "steps": actor.steps().len(),
            "provider": model::provider(&actor),
            "model": model::model(&actor),
            "options": model::options(&actor),
            "tools": model::tools(&actor),
            "skills": model::skills(&actor),
            "problems": [],
        });
        let mut rows: Vec<(&'static str, ViewCell)> = vec![
            ("file", file.name.clone().into()),
            ("actor", name.into()),
            ("type", actor.kind.actor_type().to_string().into()),
        ];
        match model::llm(&actor) {
            Some(llm) => rows.extend(model::rows(llm)),
            None => rows.push(("steps", actor.steps().len().to_string().into())),
        }
        let add = format!("agents actor add --config {}", display_path(&self.config));
        Ok(
            CommandAnswer::new(data, OutputView::new().panel("Valid", rows))
                .with_message(MessageLevel::Info, "The actor is valid")
                .with_message(MessageLevel::Hint, add),
        )
    }
}

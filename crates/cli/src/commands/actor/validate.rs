//! `agents actor validate`

use std::path::PathBuf;

use clap::Args;
use cleveragents_api::actor::ActorValidate;
use cleveragents_app::validate_actor;

use super::model;
use crate::bootstrap;
use crate::commands::CommandContext;
use crate::definition_file::DefinitionFile;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView, ViewCell};

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
        let file = DefinitionFile::read(&self.config, context)?;
        let request = ActorValidate {
            config: file.into_text(context.environment),
        };
        let reply = validate_actor(&request, bootstrap::script_problem)?;
        CommandAnswer::from_reply(reply, |valid| {
            let mut rows: Vec<(&'static str, ViewCell)> = vec![
                ("file", valid.file.clone().into()),
                ("actor", valid.name.to_string().into()),
                ("type", valid.actor_type.to_string().into()),
            ];
            match model::llm(&valid.config) {
                Some(llm) => rows.extend(model::rows(llm)),
                None => rows.push(("steps", valid.steps.to_string().into())),
            }
            OutputView::new().panel("Valid", rows)
        })
    }
}

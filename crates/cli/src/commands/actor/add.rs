//! `agents actor add`

use std::path::PathBuf;

use clap::Args;
use cleveragents_api::actor::ActorAdd;
use cleveragents_api::definition_change::DefinitionChange;
use cleveragents_app::read_actor_to_add;

use super::view::{self, StoredActor};
use crate::bootstrap;
use crate::commands::CommandContext;
use crate::definition_file::DefinitionFile;
use crate::failure::CommandFailure;
use crate::names;
use crate::output::CommandAnswer;

/// Add an actor from its YAML file
///
/// Fails if the name is taken, also with the same content; --update replaces the actor. Names in
/// `builtin/` and names of configured models are reserved. ${VAR} in the file is replaced from the
/// environment now, not when the actor runs.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents actor add --config greeter.yaml
  agents actor add --config greeter.yaml --update
  agents actor add --config - < greeter.yaml

For checks and completion while you write, begin the file with this line and the path to
docs/schemas/actor.schema.json:
  # yaml-language-server: $schema=actor.schema.json")]
pub struct ActorAddArgs {
    /// The file; `-` reads standard input
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    config: PathBuf,

    /// Replace an actor of the same name
    #[arg(long)]
    update: bool,

    /// The expected name; fails if the file has another one
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

impl ActorAddArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let file = DefinitionFile::read(&self.config, context)?;
        let name = self.name.as_deref();
        let name = name
            .map(|text| names::parse_name("actor", text))
            .transpose()?;
        let request = ActorAdd {
            config: file.into_text(context.environment),
            update: self.update,
            name,
        };
        // Before the call, which creates the data directory.
        read_actor_to_add(&request, bootstrap::script_problem)?;
        let reply = context.call(request)?;
        CommandAnswer::from_reply(reply, |answer| {
            let added = &answer.actor_added;
            let title = match added.change {
                DefinitionChange::Added => "Actor added",
                DefinitionChange::Updated => "Actor updated",
            };
            let stored = StoredActor {
                hash: &added.hash,
                created: added.created,
                updated: added.updated,
            };
            view::panel(title, &added.config, &stored)
        })
    }
}

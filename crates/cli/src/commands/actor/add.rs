//! `agents actor add`

use std::path::PathBuf;

use clap::Args;
use cleveragents_definitions::FORMAT_VERSION;
use cleveragents_domain::Actor;
use cleveragents_engine::actors::{
    ActorRegistryError, DuplicatePolicy, RegisteredActor, RegistryChange,
};
use cleveragents_ports::StoreError;
use serde_json::json;

use super::{file, model, view};
use crate::bootstrap::AppContext;
use crate::commands::CommandContext;
use crate::failure::{CommandFailure, display_path};
use crate::names;
use crate::output::{CommandAnswer, MessageLevel};
use cleveragents_app::failure::name_taken_failure;

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
        let validate = format!(
            "agents actor validate --config {}",
            display_path(&self.config)
        );
        let (_, actor) = file::read(&self.config, context, &validate)?;
        self.check_name(&actor)?;
        let update = if self.update {
            DuplicatePolicy::Replace
        } else {
            DuplicatePolicy::Refuse
        };
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open()?;
        let added = app.block_on(app.actors().add(actor, update, app.actor()));
        let (row, change) = added.map_err(|error| self.add_failure(error, &app))?;
        let said = match change {
            RegistryChange::Added => "Actor added",
            RegistryChange::Updated => "Actor updated",
        };
        let data = json!({"actor_added": {
            "name": row.actor.name,
            "provider": model::provider(&row.actor),
            "model": model::model(&row.actor),
            "options": model::options(&row.actor),
            "tools": model::tools(&row.actor),
            "skills": model::skills(&row.actor),
            "type": row.actor.kind.actor_type(),
            "config": row.actor,
            "hash": row.hash,
            "schema_version": FORMAT_VERSION,
            "version": row.version,
            "change": change.as_str(),
        }});
        let name = &row.actor.name;
        Ok(CommandAnswer::new(data, view::panel(said, &row))
            .with_message(MessageLevel::Info, said)
            .with_message(MessageLevel::Hint, format!("agents actor show {name}")))
    }

    fn check_name(&self, actor: &Actor) -> Result<(), CommandFailure> {
        let Some(text) = &self.name else {
            return Ok(());
        };
        let wanted = names::parse_name("actor", text)?;
        if wanted == actor.name {
            return Ok(());
        }
        let what = format!("the file defines {}, not {wanted}", actor.name);
        Err(CommandFailure::usage(what)
            .kind("other_name")
            .because("NAME must match the name in the file")
            .hint(format!(
                "agents actor add --config {} {}",
                display_path(&self.config),
                actor.name
            )))
    }

    /// Adds the command that replaces the existing actor to the failure for a taken name.
    fn add_failure(&self, error: ActorRegistryError, app: &AppContext<'_>) -> CommandFailure {
        let ActorRegistryError::Store(StoreError::Taken { name, .. }) = &error else {
            return error.into();
        };
        let known = name
            .parse()
            .map(|name| app.block_on(app.actors().actor(name)));
        let since = match known {
            Ok(Ok(RegisteredActor::Added(row))) => Some(row.created_at),
            _ => None,
        };
        let retry = format!(
            "agents actor add --config {} --update",
            display_path(&self.config)
        );
        name_taken_failure("actor", name, since)
            .hint(retry)
            .hint(format!("agents actor show {name}"))
    }
}

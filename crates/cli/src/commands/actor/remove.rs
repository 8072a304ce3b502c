//! `agents actor remove`

use clap::Args;
use cleveragents_domain::NamespacedName;
use cleveragents_engine::actors::{ActorRemovalMode, RegisteredActor};
use serde_json::json;

use super::{find, registry_failure, view};
use crate::commands::CommandContext;
use crate::confirmation::{Confirmation, confirm};
use crate::failure::{CommandFailure, ExitCode};
use crate::names;
use crate::output::{CommandAnswer, MessageLevel, format_count};

/// Remove an actor
///
/// Fails if an action uses it; --force removes it anyway, and plans of those actions cannot start
/// until another actor has that name.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents actor remove local/greeter
  agents actor remove local/greeter --force --yes")]
pub struct ActorRemoveArgs {
    /// The name of the actor
    #[arg(value_name = "NAME")]
    name: String,

    /// Remove it even if actions use it
    #[arg(long)]
    force: bool,

    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

impl ActorRemoveArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let name = names::parse_name("actor", &self.name)?;
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open()?;
        let found = find(&name, &app)?;
        if matches!(found, RegisteredActor::Added(_)) {
            self.confirm_removal(&name, context)?;
        }
        let removal = if self.force {
            ActorRemovalMode::Forced
        } else {
            ActorRemovalMode::IfUnused
        };
        let service = app.actors();
        let removed = app.block_on(service.remove(name.clone(), removal, app.actor()));
        let (row, actions) = removed.map_err(|error| registry_failure(error, &name, &app))?;
        let data = json!({"actor_removed": {
            "name": name,
            "type": row.actor.kind.actor_type(),
            "hash": row.hash,
            "version": row.version,
            "config": row.actor,
            "referenced_by_actions": actions,
        }});
        let answer = CommandAnswer::new(data, view::panel("Actor removed", &row))
            .with_message(MessageLevel::Info, "Actor removed");
        Ok(match actions.len() {
            0 => answer,
            number => {
                let number = i64::try_from(number).unwrap_or(i64::MAX);
                let text = format!("{} still used it", format_count(number, "action"));
                answer
                    .with_message(MessageLevel::Warn, text)
                    .with_message(MessageLevel::Hint, "agents action list")
            }
        })
    }

    fn confirm_removal(
        &self,
        name: &NamespacedName,
        context: &CommandContext<'_>,
    ) -> Result<(), CommandFailure> {
        if self.yes {
            return Ok(());
        }
        match confirm(&format!("Remove actor {name}?"), context.environment) {
            Confirmation::Yes | Confirmation::NoTerminal => Ok(()),
            Confirmation::No => Err(
                CommandFailure::new(ExitCode::Decision, "nothing was removed")
                    .because("not confirmed")
                    .hint(format!("agents actor remove {name} --yes")),
            ),
        }
    }
}

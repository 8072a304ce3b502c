//! `agents actor remove`

use clap::Args;
use cleveragents_api::NextStep;
use cleveragents_api::actor::{ActorRemove, ActorShow};
use cleveragents_domain::NamespacedName;

use super::view::{self, StoredActor};
use crate::commands::CommandContext;
use crate::confirmation::{Confirmation, confirm, is_interactive};
use crate::failure::{CommandFailure, ExitCode};
use crate::names;
use crate::output::CommandAnswer;

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
        if !self.yes && is_interactive(context.environment) {
            self.confirm_removal(&name, context)?;
        }
        let force = self.force;
        let reply = context.call(ActorRemove { name, force })?;
        CommandAnswer::from_reply(reply, |answer| {
            let removed = &answer.actor_removed;
            let stored = StoredActor {
                hash: &removed.hash,
                created: removed.created,
                updated: removed.updated,
            };
            view::panel("Actor removed", &removed.config, &stored)
        })
    }

    /// Asks before removing an actor that can be removed.
    fn confirm_removal(
        &self,
        name: &NamespacedName,
        context: &CommandContext<'_>,
    ) -> Result<(), CommandFailure> {
        let found = context.call(ActorShow { name: name.clone() })?.answer;
        if found.actor_details.builtin {
            return Ok(());
        }
        match confirm(&format!("Remove actor {name}?"), context.environment) {
            Confirmation::Yes | Confirmation::NoTerminal => Ok(()),
            Confirmation::No => {
                let name = name.clone();
                let remove = NextStep::send(&ActorRemove { name, force: false });
                let failure = CommandFailure::new(ExitCode::Decision, "nothing was removed");
                Err(failure
                    .because("not confirmed")
                    .hint(remove.with_flag("yes")))
            }
        }
    }
}

//! `agents actor remove`

use clap::Args;
use cleveragents_domain::NamespacedName;
use cleveragents_engine::actors::{RegisteredActor, Removal};
use serde_json::json;

use super::{find, refused, view};
use crate::ask::{Reply, confirm};
use crate::commands::Context;
use crate::failure::{ExitCode, Failure};
use crate::names;
use crate::output::{Answer, Level, counted};

/// Remove an actor
///
/// One that an action names is refused; --force removes it all the same, and plans of those
/// actions cannot start until there is another of that name.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents actor remove local/greeter
  agents actor remove local/greeter --force --yes")]
pub struct Remove {
    /// The name of the actor
    #[arg(value_name = "NAME")]
    name: String,

    /// Also if actions name it
    #[arg(long)]
    force: bool,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

impl Remove {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let name = names::name("actor", &self.name)?;
        let wiring = context.wiring()?;
        let wired = wiring.open()?;
        let found = find(&name, &wired)?;
        if matches!(found, RegisteredActor::Added(_)) {
            self.ask(&name, context)?;
        }
        let removal = match self.force {
            true => Removal::Forced,
            false => Removal::IfUnused,
        };
        let service = wired.actors();
        let removed = wired.wait(service.remove(name.clone(), removal, wired.actor()));
        let (row, actions) = removed.map_err(|error| refused(error, &name, &wired))?;
        let data = json!({"actor_removed": {
            "name": name,
            "type": row.actor.kind.actor_type(),
            "hash": row.hash,
            "version": row.version,
            "config": row.actor,
            "referenced_by_actions": actions,
        }});
        let answer =
            Answer::new(data, view::panel("Actor removed", &row)).say(Level::Info, "Actor removed");
        Ok(match actions.len() {
            0 => answer,
            number => {
                let number = i64::try_from(number).unwrap_or(i64::MAX);
                let text = format!("{} still named it", counted(number, "action"));
                answer
                    .say(Level::Warn, text)
                    .say(Level::Hint, "agents action list")
            }
        })
    }

    fn ask(&self, name: &NamespacedName, context: &Context<'_>) -> Result<(), Failure> {
        if self.yes {
            return Ok(());
        }
        match confirm(&format!("Remove actor {name}?"), context.environment) {
            Reply::Yes | Reply::Nobody => Ok(()),
            Reply::No => Err(Failure::new(ExitCode::Decision, "nothing was removed")
                .because("the question was not answered with yes")
                .hint(format!("agents actor remove {name} --yes"))),
        }
    }
}

//! `agents action show`

use clap::Args;
use cleveragents_domain::NamespacedName;
use cleveragents_engine::ports::PlanFilter;

use super::view::Shown;
use super::{is_missing, local_names, unknown};
use crate::commands::Context;
use crate::failure::Failure;
use crate::local_actions::{self, Chosen};
use crate::output::{Answer, Level};
use crate::wiring::Wired;

/// Show an action: its actors, typed arguments, rules, and the command that uses it
///
/// An action that is not registered is looked for in the .agents/actions folder of the project
/// around the working directory. One that is registered wins over a file.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents action show local/code-coverage
  agents action show code-coverage --format json")]
pub struct Show {
    /// The name of the action
    #[arg(value_name = "NAME")]
    name: NamespacedName,
}

impl Show {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let wiring = context.wiring()?;
        let wired = wiring.open_to_read()?;
        let folders = local_actions::around_here(context.environment);
        let chosen = local_actions::choose(&self.name, &folders, || {
            let found = wired.wait(wired.lifecycle().action(self.name.clone()));
            match is_missing(&found) {
                true => Ok(None),
                false => Ok(Some(found?)),
            }
        })?;
        let (shown, shadowed) = match chosen {
            Some(Chosen::Registered { action, shadowed }) => {
                let (_, uses) = wired.wait(wired.lifecycle().actions())?;
                let plans = uses.get(&action.id).copied().unwrap_or_default();
                (Shown::registered(&action, plans), shadowed)
            }
            Some(Chosen::File(local)) => {
                let plans = plans_of(&self.name, &wired)?;
                (Shown::local(*local, plans), None)
            }
            None => return Err(unknown(&self.name, &local_names(context), &wired)),
        };
        let answer = Answer::new(shown.data(), shown.panels("Action"))
            .say(Level::Info, "Action shown")
            .say(Level::Hint, shown.use_command());
        Ok(match shadowed {
            Some(file) => answer.say(Level::Warn, local_actions::shadowed(&self.name, &file)),
            None => answer,
        })
    }
}

/// How many plans there are of an action that is not registered and so not counted.
pub(super) fn plans_of(name: &NamespacedName, wired: &Wired<'_>) -> Result<u64, Failure> {
    let filter = PlanFilter {
        action: Some(name.clone()),
        limit: Some(1),
        ..PlanFilter::default()
    };
    Ok(wired.wait(wired.lifecycle().list_plans(filter))?.total)
}

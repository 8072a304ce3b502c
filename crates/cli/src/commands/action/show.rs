//! `agents action show`

use clap::Args;
use cleveragents_api::action::ActionShow;
use cleveragents_domain::NamespacedName;

use super::view;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::CommandAnswer;

/// Show an action: its actors, arguments, rules, and the command that uses it
///
/// An action that is not registered is read from the .agents/actions folder of the current project.
/// A registered action takes precedence over a file.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents action show local/code-coverage
  agents action show code-coverage --format json")]
pub struct ActionShowArgs {
    /// The name of the action
    #[arg(value_name = "NAME")]
    name: NamespacedName,
}

impl ActionShowArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let reply = context.call(ActionShow {
            name: self.name.clone(),
            folder: context.environment.working_directory.clone(),
        })?;
        CommandAnswer::from_reply(reply, |action| view::panels("Action", action))
    }
}

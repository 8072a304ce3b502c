//! `agents actor`: the actors that do the work of plans.

mod add;
mod list;
mod model;
mod remove;
mod run;
mod show;
mod validate;
mod view;

use clap::Subcommand;

use super::{CommandContext, CommandRequirements};
use crate::failure::CommandFailure;
use crate::output::CommandAnswer;

/// Add, list and remove actors, which run the steps of plans
///
/// An actor of type `tool` calls tools in a fixed order, without a model; one of type `llm` lets a
/// model decide. Always available are `builtin/direct`, which creates steps without a model,
/// `builtin/coder`, which uses the default model, and one actor for each configured model.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
Examples:
  agents actor validate --config greeter.yaml
  agents actor add --config greeter.yaml
  agents actor list
  agents actor show local/greeter
  agents actor run local/reviewer \"Say hello\"
  agents actor remove local/greeter")]
pub enum ActorCommand {
    Add(add::ActorAddArgs),
    List(list::ActorListArgs),
    Show(show::ActorShowArgs),
    Remove(remove::ActorRemoveArgs),
    Validate(validate::ActorValidateArgs),
    Run(run::ActorRunArgs),
}

impl ActorCommand {
    pub fn requirements(&self) -> CommandRequirements {
        match self {
            Self::Validate(_) => CommandRequirements::Settings,
            _ => CommandRequirements::Store,
        }
    }

    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        match self {
            Self::Add(command) => command.run(context),
            Self::List(command) => command.run(context),
            Self::Show(command) => command.run(context),
            Self::Remove(command) => command.run(context),
            Self::Validate(command) => command.run(context),
            Self::Run(command) => command.run(context),
        }
    }
}

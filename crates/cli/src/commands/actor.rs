//! `agents actor`: who does the work.

mod add;
mod file;
mod list;
mod model;
mod remove;
mod run;
mod show;
mod validate;
mod view;

use clap::Subcommand;
use cleveragents_domain::NamespacedName;
use cleveragents_engine::StoreError;
use cleveragents_engine::actors::{ActorRegistryError, RegisteredActor};

use super::{Context, Needs};
use crate::definition_failure::unknown;
use crate::failure::Failure;
use crate::output::Answer;
use crate::wiring::Wired;

/// Define, find and remove actors, who do the work of plans
///
/// An actor of the type `tool` calls tools in a fixed order, without a model; one of the type `llm`
/// lets a model decide. `builtin/direct`, which makes the obvious steps itself, and `builtin/coder`,
/// which works with the configured default model, are always there, and so is one for each model
/// that is configured.
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
    Add(add::Add),
    List(list::List),
    Show(show::Show),
    Remove(remove::Remove),
    Validate(validate::Validate),
    Run(run::Run),
}

impl ActorCommand {
    pub fn needs(&self) -> Needs {
        match self {
            Self::Validate(_) => Needs::Settings,
            _ => Needs::Store,
        }
    }

    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
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

/// The actor of this name, or a refusal.
pub(super) fn find(name: &NamespacedName, wired: &Wired<'_>) -> Result<RegisteredActor, Failure> {
    let found = wired.wait(wired.actors().actor(name.clone()));
    found.map_err(|error| refused(error, name, wired))
}

/// A refusal about the actor `name`; one that is not there is told with those most like it.
fn refused(error: ActorRegistryError, name: &NamespacedName, wired: &Wired<'_>) -> Failure {
    match error {
        ActorRegistryError::Store(StoreError::NotFound { what: "actor", .. }) => {
            let all = wired.wait(wired.actors().actors()).unwrap_or_default();
            let known: Vec<NamespacedName> = all
                .into_iter()
                .map(|each| each.actor().name.clone())
                .collect();
            unknown("actor", name, &known)
        }
        other => other.into(),
    }
}

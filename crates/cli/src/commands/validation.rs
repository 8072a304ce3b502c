//! `agents validation`: what the results of plans are checked with.

mod add;
mod attach;
mod detach;
mod list;
mod remove;
mod show;
mod view;

use clap::Subcommand;
use cleveragents_domain::NamespacedName;
use cleveragents_engine::StoreError;
use cleveragents_engine::validations::ValidationRegistryError;

use super::Context;
use crate::definition_failure::unknown;
use crate::failure::Failure;
use crate::output::Answer;
use crate::wiring::Wired;

/// Define validations and attach them to resources
///
/// A validation is a command or a tool that says whether what a plan made is good. It runs at the
/// end of Execute on every resource it is attached to. A plan that fails a `required` one is not
/// applied; an `informational` one only tells.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
Examples:
  agents validation add --config tests.yaml
  agents validation attach local/shop local/tests
  agents validation list
  agents validation show local/tests
  agents validation detach 7XK2M9QD
  agents validation remove local/tests")]
pub enum ValidationCommand {
    Add(add::Add),
    List(list::List),
    Show(show::Show),
    Attach(attach::Attach),
    Detach(detach::Detach),
    Remove(remove::Remove),
}

impl ValidationCommand {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        match self {
            Self::Add(command) => command.run(context),
            Self::List(command) => command.run(context),
            Self::Show(command) => command.run(context),
            Self::Attach(command) => command.run(context),
            Self::Detach(command) => command.run(context),
            Self::Remove(command) => command.run(context),
        }
    }
}

/// A refusal about the validation `name`; one that is not there is told with those most like it.
fn refused(error: ValidationRegistryError, name: &NamespacedName, wired: &Wired<'_>) -> Failure {
    match error {
        ValidationRegistryError::Store(StoreError::NotFound {
            what: "validation", ..
        }) => {
            let all = wired.wait(wired.validations().validations());
            let known: Vec<NamespacedName> = all.map_or_else(
                |_| Vec::new(),
                |(rows, _)| rows.into_iter().map(|row| row.validation.name).collect(),
            );
            unknown("validation", name, &known)
        }
        other => other.into(),
    }
}

//! `agents plan …`: one file per verb; what they share about showing a plan is in `shown`.

mod aborting;
mod apply;
mod artifacts;
mod cancel;
mod checkpoints;
mod correct;
mod delete;
mod destination;
mod diff;
mod errors;
mod events;
mod execute;
mod explain;
mod list;
mod log;
mod prompt;
mod purge;
mod rebase;
mod reject;
mod resume;
mod revert;
mod rollback;
mod shown;
mod status;
mod tree;
mod unapply;
mod use_action;
mod verify;
mod working;

pub(crate) use apply::outcome;
pub(crate) use destination::To;
pub(crate) use errors::data as error_data;
pub(crate) use execute::{answer as executed_answer, stopped};
pub(crate) use shown::find;
pub(crate) use tree::{flat, twig};
pub(crate) use working::{Told, accompany};

use clap::Subcommand;
use cleveragents_domain::Decision;

use super::{Context, Output};
use crate::arguments::Format;
use crate::failure::{Failure, excerpt};
use crate::output::{Answer, Cell, Tone};

/// Make, watch, steer and remove plans
///
/// A plan is one use of an action. What is decided on its way stands in a tree, where every
/// decision can be explained and corrected; everything that happens to it stands in its journal.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
Examples:
  agents plan use local/fix-lint local/shop --arg level=strict
  agents plan list --state errored
  agents plan execute 4k2m9x0q
  agents plan diff 4k2m9x0q
  agents plan apply 4k2m9x0q
  agents plan status 4k2m9x0q
  agents plan tree 4k2m9x0q
  agents plan log 4k2m9x0q --follow")]
pub enum PlanCommand {
    Use(use_action::Use),
    Execute(execute::Execute),
    Resume(resume::Resume),
    Apply(apply::Apply),
    Unapply(unapply::Unapply),
    Rebase(rebase::Rebase),
    Diff(diff::Diff),
    Artifacts(artifacts::Artifacts),
    Reject(reject::Reject),
    List(list::List),
    Status(status::Status),
    Cancel(cancel::Cancel),
    Revert(revert::Revert),
    Prompt(prompt::Prompt),
    Checkpoints(checkpoints::Checkpoints),
    Rollback(rollback::Rollback),
    Tree(tree::Tree),
    Explain(explain::Explain),
    Correct(correct::Correct),
    Errors(errors::Errors),
    Log(log::Log),
    Verify(verify::Verify),
    Delete(delete::Delete),
    Purge(purge::Purge),
}

impl PlanCommand {
    pub fn output(&self, format: Format) -> Output {
        match self {
            Self::Execute(command) => command.output(format),
            Self::Resume(command) => command.output(format),
            Self::Apply(command) => command.output(format),
            Self::Log(command) => command.output(format),
            Self::Errors(command) => command.output(format),
            _ => Output::Answer,
        }
    }

    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        match self {
            Self::Use(command) => command.run(context),
            Self::Execute(command) => command.run(context),
            Self::Resume(command) => command.run(context),
            Self::Apply(command) => command.run(context),
            Self::Unapply(command) => command.run(context),
            Self::Rebase(command) => command.run(context),
            Self::Diff(command) => command.run(context),
            Self::Artifacts(command) => command.run(context),
            Self::Reject(command) => command.run(context),
            Self::Checkpoints(command) => command.run(context),
            Self::Rollback(command) => command.run(context),
            Self::List(command) => command.run(context),
            Self::Status(command) => command.run(context),
            Self::Cancel(command) => command.run(context),
            Self::Revert(command) => command.run(context),
            Self::Prompt(command) => command.run(context),
            Self::Tree(command) => command.run(context),
            Self::Explain(command) => command.run(context),
            Self::Correct(command) => command.run(context),
            Self::Errors(command) => command.run(context),
            Self::Log(command) => command.run(context),
            Self::Verify(command) => command.run(context),
            Self::Delete(command) => command.run(context),
            Self::Purge(command) => command.run(context),
        }
    }
}

/// What was chosen, on one line of a list.
fn headline(decision: &Decision) -> String {
    let mut lines = decision.chosen_option.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty()).unwrap_or_default();
    excerpt(first)
}

/// A decision's confidence for people; nothing if its actor did not say.
fn confidence(decision: &Decision) -> Option<Cell> {
    let score = decision.confidence_score?;
    Some(Cell::new(format!("{:.2}", score.value()), Tone::Normal))
}

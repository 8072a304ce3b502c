//! `agents plan …`: one file per verb. Start reading at `execute`; `view` has the output that the
//! verbs share.

mod activity;
mod apply;
mod artifacts;
mod call_text;
mod cancel;
mod checkpoints;
mod correct;
pub(crate) mod cost;
mod delete;
mod destination;
mod diff;
mod diff_stat;
mod errors;
mod event_text;
mod events;
mod execute;
mod explain;
mod list;
mod log;
mod progress;
mod prompt;
mod purge;
mod question;
mod rebase;
mod reject;
mod resume;
mod revert;
mod review;
mod rollback;
mod status;
mod tree;
mod unapply;
mod use_action;
mod verify;
mod view;

pub(crate) use apply::PlanApplyArgs;
pub(crate) use destination::DestinationArgs;
pub(super) use diff::PlanDiffArgs;
pub(crate) use execute::drive_view;
pub(super) use log::PlanLogArgs;
pub(crate) use progress::{PlanProgress, run_with_progress};
pub(crate) use review::Review;
pub(super) use status::PlanStatusArgs;
pub(crate) use tree::tree_row;
pub(super) use unapply::PlanUnapplyArgs;

use clap::Subcommand;

use super::{CommandContext, OutputMode};
use crate::arguments::Format;
use crate::failure::{CommandFailure, excerpt};
use crate::output::CommandAnswer;

/// Create, run, inspect and delete plans
///
/// A plan is one use of an action. Its decisions form a tree in which each decision can be
/// explained and corrected; its journal records every event.
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
    Use(use_action::PlanUseArgs),
    Execute(execute::PlanExecuteArgs),
    Resume(resume::PlanResumeArgs),
    Apply(apply::PlanApplyArgs),
    Unapply(unapply::PlanUnapplyArgs),
    Rebase(rebase::PlanRebaseArgs),
    Diff(diff::PlanDiffArgs),
    Artifacts(artifacts::PlanArtifactsArgs),
    Reject(reject::PlanRejectArgs),
    List(list::PlanListArgs),
    Status(status::PlanStatusArgs),
    Cancel(cancel::PlanCancelArgs),
    Revert(revert::PlanRevertArgs),
    Prompt(prompt::PlanPromptArgs),
    Checkpoints(checkpoints::PlanCheckpointsArgs),
    Rollback(rollback::PlanRollbackArgs),
    Tree(tree::PlanTreeArgs),
    Explain(explain::PlanExplainArgs),
    Correct(correct::PlanCorrectArgs),
    Errors(errors::PlanErrorsArgs),
    Log(log::PlanLogArgs),
    Verify(verify::PlanVerifyArgs),
    Delete(delete::PlanDeleteArgs),
    Purge(purge::PlanPurgeArgs),
}

impl PlanCommand {
    pub fn output_mode(&self, format: Format) -> OutputMode {
        match self {
            Self::Execute(command) => command.output_mode(format),
            Self::Resume(command) => command.output_mode(format),
            Self::Apply(command) => command.output_mode(format),
            Self::Log(command) => command.output_mode(format),
            Self::Errors(command) => command.output_mode(format),
            _ => OutputMode::Answer,
        }
    }

    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
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

/// Returns the chosen option of a decision as one line for lists.
fn headline(chosen: &str) -> String {
    let mut lines = chosen.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty()).unwrap_or_default();
    excerpt(first)
}

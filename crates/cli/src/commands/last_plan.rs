//! Commands for the newest plan of a repository: verbs of `agents plan` that need no plan.

use clap::{Arg, Subcommand};

use super::plan::{PlanApplyArgs, PlanDiffArgs, PlanLogArgs, PlanStatusArgs, PlanUnapplyArgs};
use super::{CommandContext, OutputMode};
use crate::arguments::Format;
use crate::failure::CommandFailure;
use crate::output::CommandAnswer;

/// The verbs, without their noun.
#[derive(Debug, Subcommand)]
pub enum LastPlanCommand {
    /// Show the state of a plan, by default the newest of this repository
    #[command(
        mut_arg("plan", last_by_default),
        after_long_help = "\
Examples:
  agents status
  agents status @2
  agents status 4k2m9x0q --format json"
    )]
    Status(PlanStatusArgs),
    /// Show a plan's changes as a patch, by default of the newest plan of this repository
    #[command(
        mut_arg("plan", last_by_default),
        after_long_help = "\
Examples:
  agents diff
  agents diff --stat
  agents diff @2 --file src/cart.rs
  agents diff --patch | git apply --check"
    )]
    Diff(PlanDiffArgs),
    /// Apply a plan's changes, by default of the newest plan of this repository
    #[command(
        mut_arg("plan", last_by_default),
        after_long_help = "\
Examples:
  agents apply
  agents apply --to branch agents/fix-lint
  agents apply 4k2m9x0q --yes"
    )]
    Apply(PlanApplyArgs),
    /// Show a plan's journal, by default of the newest plan of this repository
    #[command(
        mut_arg("plan", last_by_default),
        after_long_help = "\
Examples:
  agents log
  agents log --follow
  agents log 4k2m9x0q --limit 5 --format json"
    )]
    Log(PlanLogArgs),
    /// Undo an applied plan, by default the newest plan of this repository
    #[command(
        mut_arg("plan", last_by_default),
        after_long_help = "\
Examples:
  agents undo
  agents undo 4k2m9x0q --yes"
    )]
    Undo(PlanUnapplyArgs),
}

fn last_by_default(plan: Arg) -> Arg {
    plan.required(false).default_value("@last")
}

impl LastPlanCommand {
    pub fn output_mode(&self, format: Format) -> OutputMode {
        match self {
            Self::Apply(command) => command.output_mode(format),
            Self::Log(command) => command.output_mode(format),
            Self::Status(_) | Self::Diff(_) | Self::Undo(_) => OutputMode::Answer,
        }
    }

    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        match self {
            Self::Status(command) => command.run(context),
            Self::Diff(command) => command.run(context),
            Self::Apply(command) => command.run(context),
            Self::Log(command) => command.run(context),
            Self::Undo(command) => command.run(context),
        }
    }
}

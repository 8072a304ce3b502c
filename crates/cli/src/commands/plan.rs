//! `agents plan`: plans and their decisions.

mod correct;
mod explain;
mod tree;

use clap::Subcommand;
use cleveragents_domain::Decision;

use super::Context;
use crate::failure::{Failure, excerpt};
use crate::output::{Answer, Cell, Tone};

/// Work with plans
///
/// A plan is one use of an action. What is decided on its way stands in a tree, where every
/// decision can be explained and corrected.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
Examples:
  agents plan tree 00abcdef
  agents plan explain 01jz4q7x --show-context
  agents plan correct --mode revert -g 'Keep the old API' 01jz4q7x")]
pub enum PlanCommand {
    Tree(tree::Tree),
    Explain(explain::Explain),
    Correct(correct::Correct),
}

impl PlanCommand {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        match self {
            Self::Tree(command) => command.run(context),
            Self::Explain(command) => command.run(context),
            Self::Correct(command) => command.run(context),
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

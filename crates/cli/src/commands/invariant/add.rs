//! `agents invariant add`

use clap::Args;
use cleveragents_api::invariant::InvariantAdd;
use cleveragents_domain::NamespacedName;

use super::view;
use crate::argument_types::PlanArgument;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView};

/// Add a rule that plans must keep
///
/// Without a scope the rule is global. --action and --plan may be repeated: the rule is added for
/// each of them, or for none if one fails. A plan applies a new rule from its next phase on.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents invariant add Never-push
  agents invariant add --global --non-overridable Never-push
  agents invariant add --project local/shop Keep-the-public-interface
  agents invariant add --action local/lint --action local/tidy Change-no-tests
  agents invariant add --plan 7XK2M9QD Leave-the-docs-alone")]
pub struct InvariantAddArgs {
    /// The rule, in a sentence
    #[arg(value_name = "TEXT")]
    text: String,

    /// For every plan; the default
    #[arg(long, conflicts_with_all = ["project", "action", "plan"])]
    global: bool,

    /// No narrower scope may replace it
    #[arg(long, conflicts_with_all = ["project", "action", "plan"])]
    non_overridable: bool,

    /// For the plans of this project
    #[arg(short, long, value_name = "PROJECT", conflicts_with_all = ["action", "plan"])]
    project: Option<NamespacedName>,

    /// For the plans of this action, registered or not; may be repeated
    #[arg(long, value_name = "ACTION", conflicts_with = "plan")]
    action: Vec<NamespacedName>,

    /// For this plan; may be repeated
    #[arg(long, value_name = "PLAN")]
    plan: Vec<PlanArgument>,
}

impl InvariantAddArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let reply = context.call_for_plans(&self.plan, |plan| InvariantAdd {
            text: self.text.clone(),
            non_overridable: self.non_overridable,
            project: self.project.clone(),
            action: self.action.clone(),
            plan,
        })?;
        CommandAnswer::from_reply(reply, |added| {
            let rows = added.invariants.iter().map(view::row);
            OutputView::new().table("Added", &view::HEADERS, rows)
        })
    }
}

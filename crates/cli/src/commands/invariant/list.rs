//! `agents invariant list`

use clap::Args;
use cleveragents_api::invariant::{InvariantList, InvariantPage};
use cleveragents_domain::NamespacedName;

use super::view;
use crate::argument_types::{PlanArgument, parse_limit};
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel, OutputView, ViewCell};

/// Default limit for the number of rows.
const DEFAULT_ROWS: usize = 100;

/// List rules, newest first, or the effective rules of a project or plan
///
/// With --effective, show the rules that apply, highest priority first, and which rules are
/// overridden by a stronger one. This includes rules from the action and those given when a plan
/// was created; they have no id.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents invariant list
  agents invariant list --project local/shop
  agents invariant list --effective --project local/shop --action local/lint
  agents invariant list --effective --plan 7XK2M9QD")]
pub struct InvariantListArgs {
    /// Only rules whose text matches this regular expression, ignoring case
    #[arg(value_name = "REGEX")]
    pattern: Option<String>,

    /// Show the effective rules; needs --project or --plan
    #[arg(long, conflicts_with = "global")]
    effective: bool,

    /// Only global rules
    #[arg(long, conflicts_with_all = ["project", "action", "plan"])]
    global: bool,

    /// Only rules of this project
    #[arg(short, long, value_name = "PROJECT", conflicts_with = "plan")]
    project: Option<NamespacedName>,

    /// Only rules of this action
    #[arg(long, value_name = "ACTION", conflicts_with = "plan")]
    action: Option<NamespacedName>,

    /// Only rules of this plan
    #[arg(long, value_name = "PLAN")]
    plan: Option<PlanArgument>,

    /// List at most this many
    #[arg(long, value_name = "NUMBER", value_parser = parse_limit)]
    limit: Option<usize>,
}

impl InvariantListArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let reply = context.call_for_plans(&self.plan, |mut plans| InvariantList {
            pattern: self.pattern.clone(),
            effective: self.effective,
            global: self.global,
            project: self.project.clone(),
            action: self.action.clone(),
            plan: plans.pop(),
            limit: self.limit,
        })?;
        let total = reply.answer.summary.total;
        let listed = self.limit.unwrap_or(DEFAULT_ROWS);
        let answer = CommandAnswer::from_reply(reply, |page| view(page, listed))?;
        Ok(match total.saturating_sub(listed) {
            0 => answer,
            more => answer.with_message(
                MessageLevel::Hint,
                format!("{more} more: use --limit {total}"),
            ),
        })
    }
}

fn view(page: &InvariantPage, listed: usize) -> OutputView {
    let rows = page.invariants.iter().take(listed).map(view::row);
    let Some(shadowed) = &page.shadowed else {
        return OutputView::new().table("Invariants", &view::HEADERS, rows);
    };
    let title = "Effective rules, highest priority first";
    let view = OutputView::new().table(title, &view::HEADERS, rows);
    if shadowed.is_empty() {
        return view;
    }
    let headers = ["id", "scope", "for", "rule", "shadowed by"];
    let rows = shadowed.iter().take(DEFAULT_ROWS).map(|shadowed| {
        let by = &shadowed.shadowed_by;
        let by = format!("{} {}", by.scope, view::target(by));
        let mut row = view::row(&shadowed.rule);
        row.push(ViewCell::from(by.trim_end()));
        row
    });
    view.table("Shadowed", &headers, rows)
}

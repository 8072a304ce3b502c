//! `agents sandbox list`

use clap::Args;
use cleveragents_api::sandbox::{SandboxList, SandboxSummary};
use cleveragents_domain::sandbox::SandboxState;

use super::view;
use crate::argument_types::{PlanArgument, parse_limit, parse_value};
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView, RowLimit, Tone, ViewCell};

const HEADERS: [&str; 6] = ["sandbox", "plan", "resource", "state", "folder", "made"];

/// List sandboxes, newest first
///
/// Shows each sandbox on record and whether its folder exists, and folders without a record.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents sandbox list
  agents sandbox list --state captured
  agents sandbox list --plan 4k2m9x0q --format json")]
pub struct SandboxListArgs {
    /// Only those of resources whose names match this regular expression, ignoring case
    #[arg(value_name = "REGEX")]
    pattern: Option<String>,

    /// Only sandboxes in this state: creating, active, captured, applied or discarded
    #[arg(long, value_name = "STATE", value_parser = parse_value::<SandboxState>)]
    state: Option<SandboxState>,

    /// Only sandboxes of this plan
    #[arg(long, value_name = "PLAN")]
    plan: Option<PlanArgument>,

    /// List at most this many
    #[arg(long, value_name = "NUMBER", value_parser = parse_limit)]
    limit: Option<usize>,
}

impl SandboxListArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let reply = context.call_for_plans(&self.plan, |mut plans| SandboxList {
            pattern: self.pattern.clone(),
            state: self.state,
            plan: plans.pop(),
            limit: self.limit,
        })?;
        let total = reply.answer.summary.total;
        let limit = RowLimit::new(self.limit, reply.answer.sandboxes.len());
        let answer = CommandAnswer::from_reply(reply, |page| match page.sandboxes.len() {
            0 => OutputView::new(),
            _ => {
                let rows = page.sandboxes.iter().take(limit.displayed).map(row);
                OutputView::new().table("Sandboxes", &HEADERS, rows)
            }
        })?;
        Ok(limit.add_hint(answer, total))
    }
}

fn row(sandbox: &SandboxSummary) -> Vec<ViewCell> {
    vec![
        ViewCell::new(sandbox.id.short(), Tone::Strong),
        sandbox.plan_id.short().into(),
        sandbox.resource.to_string().into(),
        view::state(sandbox.state),
        view::folder(sandbox),
        ViewCell::time(sandbox.created_at, Tone::Faint),
    ]
}

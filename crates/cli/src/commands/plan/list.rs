//! `agents plan list`

use clap::Args;
use cleveragents_api::plan::PlanList;
use cleveragents_api::plan::list::ListedPlan;
use cleveragents_domain::{NamespacedName, Phase, PlanState};

use super::view::state_cell;
use crate::argument_types::{DEFAULT_ROWS, parse_value};
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::names;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell};

const HEADERS: [&str; 6] = ["plan", "phase", "state", "action", "project", "elapsed"];

/// List plans, newest first
///
/// Tables show the newest 100 unless --limit is given; JSON and YAML contain all.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan list
  agents plan list --state errored --project local/shop
  agents plan list --phase execute --limit 10
  agents plan list 'lint|format' --format json")]
pub struct PlanListArgs {
    /// Only plans in this phase: strategize, execute or apply
    #[arg(long, value_name = "PHASE", value_parser = parse_value::<Phase>)]
    phase: Option<Phase>,

    /// Only plans in this state: queued, processing, complete, errored, cancelled, constrained or
    /// applied
    #[arg(long, value_name = "STATE", value_parser = parse_value::<PlanState>)]
    state: Option<PlanState>,

    /// Only plans on this project
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,

    /// Only plans of this action
    #[arg(long, value_name = "ACTION")]
    action: Option<String>,

    /// At most this many
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,

    /// Only plans whose name, description or project matches this regular expression
    #[arg(value_name = "REGEX")]
    regex: Option<String>,
}

impl PlanListArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let limit = match (self.limit, context.format.is_envelope()) {
            (None, false) => Some(DEFAULT_ROWS),
            (limit, _) => limit,
        };
        let reply = context.call(PlanList {
            phase: self.phase,
            state: self.state,
            project: parse_name("project", self.project.as_deref())?,
            action: parse_name("action", self.action.as_deref())?,
            limit,
            regex: self.regex.clone(),
        })?;
        CommandAnswer::from_reply(reply, |page| match page.plans.len() {
            0 => OutputView::new(),
            _ => OutputView::new().table("Plans", &HEADERS, page.plans.iter().map(row)),
        })
    }
}

fn parse_name(what: &str, text: Option<&str>) -> Result<Option<NamespacedName>, CommandFailure> {
    text.map(|text| names::parse_name(what, text)).transpose()
}

fn row(listed: &ListedPlan) -> Vec<ViewCell> {
    let plan = &listed.plan;
    vec![
        ViewCell::new(plan.plan_id.short(), Tone::Strong),
        plan.phase.as_str().into(),
        state_cell(plan.state),
        plan.action.to_string().into(),
        plan.project.clone().into(),
        ViewCell::new(listed.elapsed.clone(), Tone::Faint),
    ]
}

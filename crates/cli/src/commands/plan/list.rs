//! `agents plan list`

use std::path::PathBuf;

use clap::Args;
use cleveragents_api::plan::PlanList;
use cleveragents_api::plan::list::ListedPlan;
use cleveragents_domain::{NamespacedName, Phase, PlanState};

use super::view::state_cell;
use crate::argument_types::{DEFAULT_ROWS, parse_value};
use crate::commands::CommandContext;
use crate::failure::{CommandFailure, excerpt};
use crate::names;
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell};

const HEADERS: [&str; 6] = ["plan", "phase", "state", "task", "project", "elapsed"];

/// List plans, newest first
///
/// Inside a repository, tables show its plans only, unless --all or --project is given. They show the
/// newest 100 unless --limit is given. JSON and YAML contain all plans.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan list
  agents plan list --all
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

    /// Also plans of other repositories
    #[arg(long)]
    all: bool,

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
        let project = parse_name("project", self.project.as_deref())?;
        let reply = context.call(PlanList {
            phase: self.phase,
            state: self.state,
            folder: self.folder(context),
            project,
            action: parse_name("action", self.action.as_deref())?,
            limit,
            regex: self.regex.clone(),
        })?;
        let here = reply.answer.filters.folder_projects.clone();
        let answer = CommandAnswer::from_reply(reply, |page| match page.plans.len() {
            0 => OutputView::new(),
            _ => OutputView::new().table("Plans", &HEADERS, page.plans.iter().map(row)),
        })?;
        Ok(match here {
            Some(projects) => {
                let projects: Vec<String> = projects.iter().map(ToString::to_string).collect();
                let text = format!(
                    "only plans on {}; all plans: agents plan list --all",
                    projects.join(", ")
                );
                answer.with_message(MessageLevel::Hint, text)
            }
            None => answer,
        })
    }

    /// Returns the folder whose plans are listed. Programs get all plans, wherever they run.
    fn folder(&self, context: &CommandContext<'_>) -> Option<PathBuf> {
        let everywhere = self.all || self.project.is_some() || context.format.is_envelope();
        let here = context.environment.working_directory.clone();
        here.filter(|_| !everywhere)
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
        excerpt(&listed.description).into(),
        plan.project.clone().into(),
        ViewCell::new(listed.elapsed.clone(), Tone::Faint),
    ]
}

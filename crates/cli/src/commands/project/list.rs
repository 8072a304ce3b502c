//! `agents project list`

use clap::Args;
use cleveragents_api::project::{ProjectList, ProjectSummary};

use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView, RowLimit, Tone, ViewCell};

/// List projects, newest first
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents project list
  agents project list ^local/shop
  agents project list --limit 5 --format json")]
pub struct ProjectListArgs {
    /// Only those whose names match this regular expression
    regex: Option<String>,

    /// At most this many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
}

const HEADERS: [&str; 5] = ["name", "resources", "plans", "profile", "description"];

impl ProjectListArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let reply = context.call(ProjectList {
            regex: self.regex.clone(),
            limit: self.limit,
        })?;
        let total = reply.answer.summary.total;
        let limit = RowLimit::new(self.limit, reply.answer.projects.len());
        let answer = CommandAnswer::from_reply(reply, |page| {
            if page.projects.is_empty() {
                return OutputView::new().text("No matching projects.");
            }
            let rows = page.projects.iter().take(limit.displayed).map(row);
            OutputView::new().table("Projects", &HEADERS, rows)
        })?;
        Ok(limit.add_hint(answer, total))
    }
}

fn row(found: &ProjectSummary) -> Vec<ViewCell> {
    let project = &found.project;
    let profile = project.automation_profile.as_ref();
    vec![
        ViewCell::new(project.name.to_string(), Tone::Strong),
        found.resources.len().to_string().into(),
        found.plans.to_string().into(),
        profile.map_or_else(String::new, ToString::to_string).into(),
        project.description.clone().unwrap_or_default().into(),
    ]
}

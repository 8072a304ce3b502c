//! `agents project list`

use clap::Args;
use cleveragents_app::NamePattern;
use cleveragents_engine::projects::ProjectView;
use serde_json::{Value, json};

use super::data;
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell, format_count};

/// Default limit for the number of rows.
const DEFAULT_ROWS: usize = 100;

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

impl ProjectListArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let pattern = self.regex.as_deref().map(NamePattern::parse).transpose()?;
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_to_read()?;
        let mut found = app.block_on(app.projects().list())?;
        found.retain(|it| {
            pattern
                .as_ref()
                .is_none_or(|wanted| wanted.matches(&it.project.name))
        });
        let total = found.len();
        if let Some(limit) = self.limit {
            found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        }
        Ok(self.answer(&found, total))
    }

    fn answer(&self, found: &[ProjectView], total: usize) -> CommandAnswer {
        let json = json!({
            "projects": found.iter().map(row_data).collect::<Vec<_>>(),
            "filters": {"regex": self.regex, "limit": self.limit},
            "summary": {"total": total},
        });
        let shown = match self.limit {
            Some(_) => found.len(),
            None => found.len().min(DEFAULT_ROWS),
        };
        let headers = ["name", "resources", "plans", "profile", "description"];
        let view = if found.is_empty() {
            OutputView::new().text("No matching projects.")
        } else {
            OutputView::new().table("Projects", &headers, found[..shown].iter().map(row))
        };
        let counted = format_count(i64::try_from(total).unwrap_or(i64::MAX), "project");
        let said = match total - shown {
            0 => counted,
            more => format!("{counted}, {more} of them not shown"),
        };
        let answer = CommandAnswer::new(json, view).with_message(MessageLevel::Info, said);
        match total {
            0 => answer.with_message(MessageLevel::Hint, "agents project create NAME --path DIR"),
            _ => answer,
        }
    }
}

fn plans(found: &ProjectView) -> u64 {
    found.plans.values().sum()
}

fn row(found: &ProjectView) -> Vec<ViewCell> {
    let project = &found.project;
    let profile = project.automation_profile.as_ref();
    vec![
        ViewCell::new(project.name.to_string(), Tone::Strong),
        found.resources.len().to_string().into(),
        plans(found).to_string().into(),
        profile.map_or_else(String::new, ToString::to_string).into(),
        project.description.clone().unwrap_or_default().into(),
    ]
}

fn row_data(found: &ProjectView) -> Value {
    let mut data = data(&found.project);
    let names = found.resources.iter().map(|resource| &resource.name);
    data["resources"] = json!(names.collect::<Vec<_>>());
    data["plans"] = plans(found).into();
    data
}

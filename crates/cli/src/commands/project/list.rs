//! `agents project list`

use clap::Args;
use cleveragents_engine::projects::ProjectView;
use serde_json::{Value, json};

use super::data;
use crate::commands::Context;
use crate::failure::Failure;
use crate::names;
use crate::output::{Answer, Cell, Level, Tone, View, counted};

/// How many people are shown unless they say.
const SHOWN_MAXIMUM: usize = 100;

/// List projects, the newest first
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents project list
  agents project list ^local/shop
  agents project list --limit 5 --format json")]
pub struct List {
    /// Only those whose names match this regular expression
    regex: Option<String>,

    /// At most this many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
}

impl List {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let pattern = self.regex.as_deref().map(names::pattern).transpose()?;
        let wiring = context.wiring()?;
        let wired = wiring.open_to_read()?;
        let mut found = wired.wait(wired.projects().list())?;
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

    fn answer(&self, found: &[ProjectView], total: usize) -> Answer {
        let json = json!({
            "projects": found.iter().map(row_data).collect::<Vec<_>>(),
            "filters": {"regex": self.regex, "limit": self.limit},
            "summary": {"total": total},
        });
        let shown = match self.limit {
            Some(_) => found.len(),
            None => found.len().min(SHOWN_MAXIMUM),
        };
        let headers = ["name", "resources", "plans", "profile", "description"];
        let view = match found.is_empty() {
            true => View::new().text("There is no such project."),
            false => View::new().table("Projects", &headers, found[..shown].iter().map(row)),
        };
        let counted = counted(i64::try_from(total).unwrap_or(i64::MAX), "project");
        let said = match total - shown {
            0 => counted,
            more => format!("{counted}, {more} of them not shown"),
        };
        let answer = Answer::new(json, view).say(Level::Info, said);
        match total {
            0 => answer.say(Level::Hint, "agents project create NAME --path DIR"),
            _ => answer,
        }
    }
}

fn plans(found: &ProjectView) -> u64 {
    found.plans.values().sum()
}

fn row(found: &ProjectView) -> Vec<Cell> {
    let project = &found.project;
    let profile = project.automation_profile.as_ref();
    vec![
        Cell::new(project.name.to_string(), Tone::Strong),
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

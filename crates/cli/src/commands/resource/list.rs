//! `agents resource list`

use clap::Args;
use cleveragents_engine::projects::ResourceView;
use serde_json::json;

use super::{joined, summary, view_data};
use crate::commands::Context;
use crate::failure::Failure;
use crate::names;
use crate::output::{Answer, Cell, Level, View, counted};

/// How many people are shown unless they say.
const SHOWN_MAXIMUM: usize = 100;

/// List resources, the newest first
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents resource list
  agents resource list --type git-checkout --format json")]
pub struct List {
    /// Only those of this type: git-checkout or fs-directory
    #[arg(long = "type", value_name = "TYPE")]
    resource_type: Option<String>,

    /// At most this many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
}

impl List {
    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let wanted = self.resource_type.as_deref().map(names::resource_type);
        let wanted = wanted.transpose()?;
        let wiring = context.wiring()?;
        let wired = wiring.open_to_read()?;
        let mut found = wired.wait(wired.projects().map())?.resources;
        found.retain(|one| wanted.is_none_or(|wanted| one.resource.resource_type == wanted));
        let total = found.len();
        if let Some(limit) = self.limit {
            found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        }
        Ok(self.answer(&found, total))
    }

    fn answer(&self, found: &[ResourceView], total: usize) -> Answer {
        let json = json!({
            "resources": found.iter().map(view_data).collect::<Vec<_>>(),
            "filters": {"type": self.resource_type, "limit": self.limit},
            "summary": {"total": total},
        });
        let shown = match self.limit {
            Some(_) => found.len(),
            None => found.len().min(SHOWN_MAXIMUM),
        };
        let headers = ["name", "type", "sandbox", "path", "projects"];
        let view = match found.is_empty() {
            true => View::new().text("There is no such resource."),
            false => View::new().table("Resources", &headers, found[..shown].iter().map(row)),
        };
        let counted = counted(i64::try_from(total).unwrap_or(i64::MAX), "resource");
        let said = match total - shown {
            0 => counted,
            more => format!("{counted}, {more} of them not shown"),
        };
        let answer = Answer::new(json, view).say(Level::Info, said);
        match total {
            0 => answer.say(
                Level::Hint,
                "agents resource add git-checkout NAME --path DIR",
            ),
            _ => answer,
        }
    }
}

fn row(found: &ResourceView) -> Vec<Cell> {
    let mut row = summary(&found.resource);
    row.push(joined(&found.projects).into());
    row
}

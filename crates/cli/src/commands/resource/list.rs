//! `agents resource list`

use clap::Args;
use cleveragents_engine::projects::ResourceView;
use serde_json::json;

use super::{join_names, summary, view_data};
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::names;
use crate::output::{CommandAnswer, MessageLevel, OutputView, ViewCell, format_count};

/// Default limit for the number of rows.
const DEFAULT_ROWS: usize = 100;

/// List resources, newest first
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents resource list
  agents resource list --type git-checkout --format json")]
pub struct ResourceListArgs {
    /// Only those of this type: git-checkout or fs-directory
    #[arg(long = "type", value_name = "TYPE")]
    resource_type: Option<String>,

    /// At most this many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
}

impl ResourceListArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let wanted = self
            .resource_type
            .as_deref()
            .map(names::parse_resource_type);
        let wanted = wanted.transpose()?;
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_to_read()?;
        let mut found = app.block_on(app.projects().project_map())?.resources;
        found.retain(|one| wanted.is_none_or(|wanted| one.resource.resource_type == wanted));
        let total = found.len();
        if let Some(limit) = self.limit {
            found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        }
        Ok(self.answer(&found, total))
    }

    fn answer(&self, found: &[ResourceView], total: usize) -> CommandAnswer {
        let json = json!({
            "resources": found.iter().map(view_data).collect::<Vec<_>>(),
            "filters": {"type": self.resource_type, "limit": self.limit},
            "summary": {"total": total},
        });
        let shown = match self.limit {
            Some(_) => found.len(),
            None => found.len().min(DEFAULT_ROWS),
        };
        let headers = ["name", "type", "sandbox", "path", "projects"];
        let view = if found.is_empty() {
            OutputView::new().text("No matching resources.")
        } else {
            OutputView::new().table("Resources", &headers, found[..shown].iter().map(row))
        };
        let counted = format_count(i64::try_from(total).unwrap_or(i64::MAX), "resource");
        let said = match total - shown {
            0 => counted,
            more => format!("{counted}, {more} of them not shown"),
        };
        let answer = CommandAnswer::new(json, view).with_message(MessageLevel::Info, said);
        match total {
            0 => answer.with_message(
                MessageLevel::Hint,
                "agents resource add git-checkout NAME --path DIR",
            ),
            _ => answer,
        }
    }
}

fn row(found: &ResourceView) -> Vec<ViewCell> {
    let mut row = summary(&found.resource);
    row.push(join_names(&found.projects).into());
    row
}

//! `agents resource list`

use clap::Args;
use cleveragents_api::resource::{LinkedResource, ResourceList};

use super::{join_names, summary};
use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::names;
use crate::output::{CommandAnswer, OutputView, RowLimit, ViewCell};

/// List resources, newest first
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents resource list
  agents resource list --type git-checkout --format json")]
pub struct ResourceListArgs {
    /// Only names that match this regular expression, ignoring case
    #[arg(value_name = "REGEX")]
    pattern: Option<String>,

    /// Only those of this type: git-checkout or fs-directory
    #[arg(long = "type", value_name = "TYPE")]
    resource_type: Option<String>,

    /// At most this many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
}

const HEADERS: [&str; 5] = ["name", "type", "sandbox", "path", "projects"];

impl ResourceListArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let resource_type = self.resource_type.as_deref();
        let resource_type = resource_type.map(names::parse_resource_type);
        let reply = context.call(ResourceList {
            pattern: self.pattern.clone(),
            resource_type: resource_type.transpose()?,
            limit: self.limit,
        })?;
        let total = reply.answer.summary.total;
        let limit = RowLimit::new(self.limit, reply.answer.resources.len());
        let answer = CommandAnswer::from_reply(reply, |page| {
            if page.resources.is_empty() {
                return OutputView::new().text("No matching resources.");
            }
            let rows = page.resources.iter().take(limit.displayed).map(row);
            OutputView::new().table("Resources", &HEADERS, rows)
        })?;
        Ok(limit.add_hint(answer, total))
    }
}

fn row(found: &LinkedResource) -> Vec<ViewCell> {
    let mut row = summary(&found.resource);
    row.push(join_names(&found.projects).into());
    row
}

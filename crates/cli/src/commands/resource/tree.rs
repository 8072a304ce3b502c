//! `agents resource tree`

use clap::Args;
use cleveragents_api::resource::{ResourceTree, ResourceTreeRow, ResourceTreeRowKind};

use crate::commands::CommandContext;
use crate::failure::CommandFailure;
use crate::names;
use crate::output::{CommandAnswer, OutputView, Tone, TreeRow, ViewCell};

/// Show projects, their resources, and nested resources
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents resource tree
  agents resource tree local/library")]
pub struct ResourceTreeArgs {
    /// Only this resource and what is inside it
    name: Option<String>,
}

impl ResourceTreeArgs {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let name = self.name.as_deref();
        let name = name.map(|name| names::parse_name("resource", name));
        let reply = context.call(ResourceTree {
            name: name.transpose()?,
        })?;
        CommandAnswer::from_reply(reply, |answer| {
            if answer.tree.is_empty() {
                OutputView::new().text("No projects and no resources.")
            } else {
                OutputView::new().tree("Resources", answer.tree.iter().map(tree_row))
            }
        })
    }
}

fn tree_row(row: &ResourceTreeRow) -> TreeRow {
    let name = row.name.as_ref().map(ToString::to_string);
    let name = name.unwrap_or_default();
    let cells = match row.kind {
        ResourceTreeRowKind::Project => vec![ViewCell::new(name, Tone::Strong)],
        ResourceTreeRowKind::Unlinked => vec![ViewCell::new("(in no project)", Tone::Faint)],
        ResourceTreeRowKind::Resource => {
            let mut cells = vec![ViewCell::from(name)];
            let resource_type = row.resource_type.map(|it| it.as_str());
            cells.extend(resource_type.map(|it| ViewCell::new(it, Tone::Faint)));
            cells.extend(row.path.as_ref().map(|path| path.to_string().into()));
            if row.linked == Some(false) {
                cells.push(ViewCell::new("(not linked)", Tone::Faint));
            }
            cells
        }
    };
    TreeRow {
        depth: row.depth,
        cells,
    }
}

//! `agents resource`: folders on this machine that plans may work on.

mod add;
mod list;
mod remove;
mod show;
mod tree;

use clap::Subcommand;
use cleveragents_api::resource::ResourceDetails;
use cleveragents_domain::NamespacedName;

use super::CommandContext;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, Tone, ViewCell};

/// Register directories that plans may work on
///
/// A resource is a git checkout, which plans change in a private git tree, or a folder, which they
/// change in a copy. It can be linked to any number of projects.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
Examples:
  agents resource add git-checkout local/library --path /srv/library
  agents resource list --type fs-directory
  agents resource tree")]
pub enum ResourceCommand {
    Add(add::ResourceAddArgs),
    List(list::ResourceListArgs),
    Show(show::ResourceShowArgs),
    Tree(tree::ResourceTreeArgs),
    Remove(remove::ResourceRemoveArgs),
}

impl ResourceCommand {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        match self {
            Self::Add(command) => command.run(context),
            Self::List(command) => command.run(context),
            Self::Show(command) => command.run(context),
            Self::Tree(command) => command.run(context),
            Self::Remove(command) => command.run(context),
        }
    }
}

/// Returns a table row: name, type, sandbox, path.
pub(super) fn summary(resource: &ResourceDetails) -> Vec<ViewCell> {
    vec![
        ViewCell::new(resource.name.to_string(), Tone::Strong),
        resource.resource_type.as_str().into(),
        resource.sandbox.as_str().into(),
        resource.path.to_string().into(),
    ]
}

fn join_names(names: &[NamespacedName]) -> String {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    names.join(", ")
}

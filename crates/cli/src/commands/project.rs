//! `agents project`: named sets of resources that plans work on.

mod create;
mod delete;
mod link_resource;
mod list;
mod show;
mod unlink_resource;
mod view;

use clap::Subcommand;

use super::CommandContext;
use crate::failure::CommandFailure;
use crate::output::CommandAnswer;

/// Group resources that plans work on into projects
///
/// A project has resources (git checkouts and folders), invariants for all its plans, and
/// optionally an automation profile.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
Examples:
  agents project create shop --path .
  agents project show shop
  agents project link-resource shop local/library
  agents project delete shop")]
pub enum ProjectCommand {
    Create(create::ProjectCreateArgs),
    List(list::ProjectListArgs),
    Show(show::ProjectShowArgs),
    Delete(delete::ProjectDeleteArgs),
    LinkResource(link_resource::ProjectLinkResourceArgs),
    UnlinkResource(unlink_resource::ProjectUnlinkResourceArgs),
}

impl ProjectCommand {
    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        match self {
            Self::Create(command) => command.run(context),
            Self::List(command) => command.run(context),
            Self::Show(command) => command.run(context),
            Self::Delete(command) => command.run(context),
            Self::LinkResource(command) => command.run(context),
            Self::UnlinkResource(command) => command.run(context),
        }
    }
}

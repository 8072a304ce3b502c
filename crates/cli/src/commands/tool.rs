//! `agents tool`: the tools that actors use in a sandbox.

mod input;
mod list;
mod run;
mod show;
mod view;

use clap::Subcommand;
use cleveragents_api::NextStep;
use cleveragents_api::tool::ToolList;
use cleveragents_domain::NamespacedName;

use super::{CommandContext, CommandRequirements};
use crate::failure::CommandFailure;
use crate::names;
use crate::output::CommandAnswer;

/// List, show and run the tools that actors use in a sandbox
///
/// Input and output of a tool are JSON that matches its schemas; its flags say what it may do.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
Examples:
  agents tool list
  agents tool show builtin/file-edit
  agents tool run builtin/file-list --input '{\"depth\": 2}'")]
pub enum ToolCommand {
    List(list::ToolListArgs),
    Show(show::ToolShowArgs),
    Run(run::ToolRunArgs),
}

impl ToolCommand {
    pub fn requirements(&self) -> CommandRequirements {
        match self {
            Self::List(_) | Self::Show(_) => CommandRequirements::Nothing,
            Self::Run(_) => CommandRequirements::Store,
        }
    }

    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        match self {
            Self::List(command) => command.run(),
            Self::Show(command) => command.run(),
            Self::Run(command) => command.run(context),
        }
    }
}

/// Parses the name of a tool; the namespace `builtin` is optional.
fn parse_name(text: &str) -> Result<NamespacedName, CommandFailure> {
    let full = if text.contains('/') {
        text.to_owned()
    } else {
        format!("builtin/{text}")
    };
    let name = names::parse_name("tool", &full);
    let list = NextStep::send(&ToolList::default());
    name.map_err(|failure| failure.hint(list))
}

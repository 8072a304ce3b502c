//! `agents tool`: the tools that actors use in a sandbox.

mod input;
mod list;
mod run;
mod show;
mod trial;
mod view;

use clap::Subcommand;
use cleveragents_domain::NamespacedName;
use cleveragents_ports::tools::{Tool, Toolbox};

use super::{CommandContext, CommandRequirements};
use crate::failure::{CommandFailure, ExitCode};
use crate::names;
use crate::output::CommandAnswer;
use cleveragents_app::nearest::nearest;

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

/// Finds a tool by name; the namespace `builtin` is optional.
fn find<'a>(toolbox: &'a dyn Toolbox, text: &str) -> Result<&'a dyn Tool, CommandFailure> {
    let full = if text.contains('/') {
        text.to_owned()
    } else {
        format!("builtin/{text}")
    };
    let name = names::parse_name("tool", &full);
    let name = name.map_err(|failure| failure.hint("agents tool list"))?;
    toolbox
        .tool(&name)
        .ok_or_else(|| unknown_tool_failure(toolbox, &name))
}

fn unknown_tool_failure(toolbox: &dyn Toolbox, name: &NamespacedName) -> CommandFailure {
    let known: Vec<&NamespacedName> = toolbox.definitions().iter().map(|it| &it.name).collect();
    let alike = nearest(name, known);
    let mut failure = CommandFailure::new(ExitCode::NotFound, format!("there is no tool {name}"));
    for name in &alike {
        failure = failure.hint(format!("agents tool show {name}"));
    }
    failure
        .hint("agents tool list")
        .with("candidates", serde_json::json!(alike))
}

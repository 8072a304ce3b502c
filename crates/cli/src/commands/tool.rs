//! `agents tool`: what actors can do in a sandbox.

mod input;
mod list;
mod run;
mod show;
mod trial;
mod view;

use clap::Subcommand;
use cleveragents_domain::NamespacedName;
use cleveragents_engine::ports::tools::{Tool, Toolbox};

use super::{Context, Needs};
use crate::failure::{ExitCode, Failure};
use crate::names;
use crate::nearest::nearest;
use crate::output::Answer;

/// List, show and try tools: what actors can do in a sandbox
///
/// A tool takes and gives JSON that matches its schemas, and says by its flags what it may do.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
Examples:
  agents tool list
  agents tool show builtin/file-edit
  agents tool run builtin/file-list --input '{\"depth\": 2}'")]
pub enum ToolCommand {
    List(list::List),
    Show(show::Show),
    Run(run::Run),
}

impl ToolCommand {
    pub fn needs(&self) -> Needs {
        match self {
            Self::List(_) | Self::Show(_) => Needs::Nothing,
            Self::Run(_) => Needs::Store,
        }
    }

    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        match self {
            Self::List(command) => command.run(),
            Self::Show(command) => command.run(),
            Self::Run(command) => command.run(context),
        }
    }
}

/// The tool someone named; the namespace `builtin` may be left out.
fn find<'a>(toolbox: &'a dyn Toolbox, text: &str) -> Result<&'a dyn Tool, Failure> {
    let full = match text.contains('/') {
        true => text.to_owned(),
        false => format!("builtin/{text}"),
    };
    let name = names::name("tool", &full);
    let name = name.map_err(|failure| failure.hint("agents tool list"))?;
    toolbox.tool(&name).ok_or_else(|| unknown(toolbox, &name))
}

fn unknown(toolbox: &dyn Toolbox, name: &NamespacedName) -> Failure {
    let known: Vec<&NamespacedName> = toolbox.definitions().iter().map(|it| &it.name).collect();
    let alike = nearest(name, known);
    let mut failure = Failure::new(ExitCode::NotFound, format!("there is no tool {name}"));
    for name in &alike {
        failure = failure.hint(format!("agents tool show {name}"));
    }
    failure
        .hint("agents tool list")
        .with("candidates", serde_json::json!(alike))
}

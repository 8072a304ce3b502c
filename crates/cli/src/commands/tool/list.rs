//! `agents tool list`

use clap::{Args, ValueEnum};
use cleveragents_api::tool::{ToolList, ToolSummary, ToolType};
use cleveragents_app::list_tools;

use super::view;
use crate::argument_types::parse_limit;
use crate::bootstrap;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell};

/// The purpose of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ToolTypeArg {
    /// Does something
    Tool,
    /// Checks a condition, and gates Apply
    Validation,
}

/// List tools by name
///
/// A tool of type validation checks a condition; none is built in.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents tool list
  agents tool list '^builtin/file'
  agents tool list --type tool --format json")]
pub struct ToolListArgs {
    /// Only names that match this regular expression, ignoring case
    #[arg(value_name = "REGEX")]
    pattern: Option<String>,

    /// Only tools of this type
    #[arg(long = "type", value_name = "TYPE")]
    tool_type: Option<ToolTypeArg>,

    /// List at most this many
    #[arg(long, value_name = "NUMBER", value_parser = parse_limit)]
    limit: Option<usize>,
}

impl From<ToolTypeArg> for ToolType {
    fn from(argument: ToolTypeArg) -> Self {
        match argument {
            ToolTypeArg::Tool => Self::Tool,
            ToolTypeArg::Validation => Self::Validation,
        }
    }
}

impl ToolListArgs {
    pub fn run(&self) -> Result<CommandAnswer, CommandFailure> {
        let request = ToolList {
            pattern: self.pattern.clone(),
            tool_type: self.tool_type.map(ToolType::from),
            limit: self.limit,
        };
        let toolbox = bootstrap::toolbox(None, bootstrap::ShellSettings::default())?;
        let reply = list_tools(request, &*toolbox)?;
        CommandAnswer::from_reply(reply, |page| {
            let headers = ["name", "access", "what it does"];
            OutputView::new().table("Tools", &headers, page.tools.iter().map(row))
        })
    }
}

fn row(tool: &ToolSummary) -> Vec<ViewCell> {
    let access = if tool.capability.writes {
        ViewCell::new("writes", Tone::Doubtful)
    } else {
        ViewCell::new("reads", Tone::Normal)
    };
    vec![
        ViewCell::new(tool.name.to_string(), Tone::Strong),
        access,
        view::first_sentence(&tool.description).into(),
    ]
}

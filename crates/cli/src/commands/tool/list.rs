//! `agents tool list`

use clap::{Args, ValueEnum};
use cleveragents_domain::tool::{ToolAccess, ToolDefinition};
use serde_json::{Value, json};

use super::view;
use crate::bootstrap;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel, OutputView, Tone, ViewCell, format_count};
use cleveragents_app::NamePattern;

/// What a tool is for.
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
}

impl ToolListArgs {
    pub fn run(&self) -> Result<CommandAnswer, CommandFailure> {
        let pattern = self
            .pattern
            .as_deref()
            .map(NamePattern::parse)
            .transpose()?;
        let toolbox = bootstrap::toolbox(None, bootstrap::ShellSettings::default())?;
        let wanted = |tool: &&ToolDefinition| {
            self.tool_type != Some(ToolTypeArg::Validation)
                && pattern.as_ref().is_none_or(|it| it.matches(&tool.name))
        };
        let mut tools = toolbox.definitions();
        tools.retain(wanted);
        let data = json!({
            "tools": tools.iter().map(|tool| view::data(tool)).collect::<Vec<Value>>(),
            "filters": {
                "type": self.tool_type.map(|it| match it {
                    ToolTypeArg::Tool => "tool",
                    ToolTypeArg::Validation => "validation",
                }),
                "pattern": pattern.as_ref().map(NamePattern::as_str),
            },
            "summary": {"total": tools.len()},
        });
        let headers = ["name", "access", "what it does"];
        let view = OutputView::new().table("Tools", &headers, tools.iter().map(|tool| row(tool)));
        let number = i64::try_from(tools.len()).unwrap_or(i64::MAX);
        let answer = CommandAnswer::new(data, view);
        let answer = answer.with_message(
            MessageLevel::Info,
            format!("{} listed", format_count(number, "tool")),
        );
        Ok(match tools.first() {
            Some(tool) => answer.with_message(
                MessageLevel::Hint,
                format!("agents tool show {}", tool.name),
            ),
            None => answer.with_message(MessageLevel::Hint, "agents tool list"),
        })
    }
}

fn row(tool: &ToolDefinition) -> Vec<ViewCell> {
    let access = match tool.capability.access {
        ToolAccess::ReadOnly => ViewCell::new("reads", Tone::Normal),
        ToolAccess::Writes => ViewCell::new("writes", Tone::Doubtful),
    };
    vec![
        ViewCell::new(tool.name.to_string(), Tone::Strong),
        access,
        view::first_sentence(&tool.description).into(),
    ]
}

//! `agents tool list`

use clap::{Args, ValueEnum};
use cleveragents_domain::tool::{Access, ToolDefinition};
use serde_json::{Value, json};

use super::view;
use crate::failure::Failure;
use crate::name_pattern::NamePattern;
use crate::output::{Answer, Cell, Level, Tone, View, counted};
use crate::{names, wiring};

/// What a tool is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Type {
    /// Does something
    Tool,
    /// Says whether something holds, and gates Apply
    Validation,
}

/// List tools in order of their names
///
/// A tool of type validation says whether something holds; none is built in.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents tool list
  agents tool list '^builtin/file'
  agents tool list --type tool --format json")]
pub struct List {
    /// Only names that match this regular expression, whatever the case of its letters
    #[arg(value_name = "REGEX")]
    pattern: Option<String>,

    /// Only tools of this type
    #[arg(long = "type", value_name = "TYPE")]
    tool_type: Option<Type>,
}

impl List {
    pub fn run(&self) -> Result<Answer, Failure> {
        let pattern = self.pattern.as_deref().map(names::pattern).transpose()?;
        let toolbox = wiring::tools(None, wiring::ShellSettings::default())?;
        let wanted = |tool: &&ToolDefinition| {
            self.tool_type != Some(Type::Validation)
                && pattern.as_ref().is_none_or(|it| it.matches(&tool.name))
        };
        let mut tools = toolbox.definitions();
        tools.retain(wanted);
        let data = json!({
            "tools": tools.iter().map(|tool| view::data(tool)).collect::<Vec<Value>>(),
            "filters": {
                "type": self.tool_type.map(|it| match it {
                    Type::Tool => "tool",
                    Type::Validation => "validation",
                }),
                "pattern": pattern.as_ref().map(NamePattern::as_str),
            },
            "summary": {"total": tools.len()},
        });
        let headers = ["name", "access", "what it does"];
        let view = View::new().table("Tools", &headers, tools.iter().map(|tool| row(tool)));
        let number = i64::try_from(tools.len()).unwrap_or(i64::MAX);
        let answer = Answer::new(data, view);
        let answer = answer.say(Level::Info, format!("{} listed", counted(number, "tool")));
        Ok(match tools.first() {
            Some(tool) => answer.say(Level::Hint, format!("agents tool show {}", tool.name)),
            None => answer.say(Level::Hint, "agents tool list"),
        })
    }
}

fn row(tool: &ToolDefinition) -> Vec<Cell> {
    let access = match tool.capability.access {
        Access::ReadOnly => Cell::new("reads", Tone::Normal),
        Access::Writes => Cell::new("writes", Tone::Doubtful),
    };
    vec![
        Cell::new(tool.name.to_string(), Tone::Strong),
        access,
        view::first_sentence(&tool.description).into(),
    ]
}

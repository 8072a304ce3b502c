//! `agents tool show`

use clap::Args;
use cleveragents_api::tool::{ToolDetails, ToolShow};
use cleveragents_app::show_tool;
use serde_json::Value;

use super::{parse_name, view};
use crate::bootstrap;
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, OutputView, Tone, ViewCell};

/// Show a tool: its input, its output, and what it may do
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents tool show builtin/file-edit
  agents tool show shell --format json")]
pub struct ToolShowArgs {
    /// The name of the tool; the namespace `builtin` may be left out
    #[arg(value_name = "NAME")]
    name: String,
}

impl ToolShowArgs {
    pub fn run(&self) -> Result<CommandAnswer, CommandFailure> {
        let name = parse_name(&self.name)?;
        let toolbox = bootstrap::toolbox(None, bootstrap::ShellSettings::default())?;
        let reply = show_tool(&ToolShow { name }, &*toolbox)?;
        CommandAnswer::from_reply(reply, panels)
    }
}

fn panels(shown: &ToolDetails) -> OutputView {
    let tool = &shown.tool;
    let mut rows: Vec<(&str, ViewCell)> = vec![
        ("name", ViewCell::new(tool.name.to_string(), Tone::Strong)),
        ("description", tool.description.clone().into()),
        ("source", tool.source.clone().into()),
        ("timeout", format!("{} s", shown.timeout_seconds).into()),
    ];
    rows.extend(view::flag_rows(&tool.capability));
    let headers = ["field", "type", "needed", "meaning"];
    OutputView::new()
        .panel("Tool", rows)
        .table("Input", &headers, fields(&shown.input_schema))
        .table("Output", &headers, fields(&shown.output_schema))
}

/// Returns the properties of an object's schema; required ones first, in their order.
fn fields(schema: &Value) -> Vec<Vec<ViewCell>> {
    let needed = schema["required"].as_array();
    let place = |name: &str| {
        let mut needed = needed.into_iter().flatten();
        needed.position(|it| it == name).unwrap_or(usize::MAX)
    };
    let properties = schema["properties"].as_object();
    let mut properties: Vec<(&String, &Value)> = properties.into_iter().flatten().collect();
    properties.sort_by_key(|(name, _)| place(name));
    let row = |(name, property): (&String, &Value)| {
        let is_needed = place(name) != usize::MAX;
        vec![
            ViewCell::new(name, Tone::Strong),
            kind(property).into(),
            (if is_needed { "yes" } else { "no" }).into(),
            property["description"].as_str().unwrap_or_default().into(),
        ]
    };
    properties.into_iter().map(row).collect()
}

fn kind(property: &Value) -> String {
    let plain = property["type"].as_str().unwrap_or("any");
    if let Some(words) = property["enum"].as_array() {
        let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
        return words.join(" | ");
    }
    match (&property["minimum"], &property["maximum"]) {
        (Value::Number(from), Value::Number(to)) if to.as_u64() < Some(1 << 31) => {
            format!("{plain} {from}…{to}")
        }
        (Value::Number(from), _) => format!("{plain} ≥ {from}"),
        _ => plain.to_owned(),
    }
}

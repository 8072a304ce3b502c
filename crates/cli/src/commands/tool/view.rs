//! Output of tools and their results for people.

use cleveragents_api::tool::ToolCapability;
use serde_json::{Map, Value};

use crate::output::{OutputView, ViewCell};

pub(super) fn flag_rows(capability: &ToolCapability) -> Vec<(&'static str, ViewCell)> {
    let yes_or_no = |value| if value { "yes" } else { "no" };
    let mut rows: Vec<(&str, ViewCell)> = [
        ("read_only", capability.read_only),
        ("writes", capability.writes),
        ("idempotent", capability.idempotent),
        ("unsafe", capability.is_unsafe),
        ("checkpointable", capability.checkpointable),
    ]
    .into_iter()
    .map(|(name, value)| (name, yes_or_no(value).into()))
    .collect();
    let effects = if capability.side_effects.is_empty() {
        "none".to_owned()
    } else {
        capability.side_effects.join("; ")
    };
    rows.push(("side_effects", effects.into()));
    rows
}

pub(super) fn first_sentence(text: &str) -> &str {
    match text.find(". ") {
        Some(end) => &text[..=end],
        None => text,
    }
}

/// Renders a tool's output: short values in a panel, lists as tables, texts verbatim.
pub(super) fn output(view: OutputView, output: &Value) -> OutputView {
    let Some(fields) = output.as_object() else {
        return view.verbatim(format!("{output:#}\n"));
    };
    let mut rows = Vec::new();
    let mut texts = Vec::new();
    let mut lists = Vec::new();
    for (name, value) in fields {
        match value {
            Value::String(text) if text.contains('\n') => texts.push((name, text)),
            Value::Array(items) if items.iter().any(Value::is_object) => lists.push((name, items)),
            other => rows.push((name.as_str(), ViewCell::from(scalar(other)))),
        }
    }
    rows.sort_by_key(|(name, _)| *name != "path");
    let mut view = if rows.is_empty() {
        view
    } else {
        view.panel("Output", rows)
    };
    for (name, items) in lists {
        view = table(view, name, items);
    }
    for (name, text) in texts {
        let end = if text.ends_with('\n') { "" } else { "\n" };
        view = view
            .text(format!("{name}:"))
            .verbatim(format!("{text}{end}"));
    }
    view
}

fn table(view: OutputView, name: &str, items: &[Value]) -> OutputView {
    let objects: Vec<&Map<String, Value>> = items.iter().filter_map(Value::as_object).collect();
    let mut headers: Vec<&str> = Vec::new();
    for key in objects.iter().flat_map(|object| object.keys()) {
        if !headers.contains(&key.as_str()) {
            headers.push(key);
        }
    }
    // Identifying columns come first, before alphabetical order.
    headers.sort_by_key(|header| !matches!(*header, "path" | "id"));
    let row = |object: &&Map<String, Value>| {
        let cells = headers.iter().map(|header| object.get(*header));
        let cells = cells.map(|value| value.map(scalar).unwrap_or_default().into());
        cells.collect::<Vec<ViewCell>>()
    };
    view.table(name, &headers, objects.iter().map(row).collect::<Vec<_>>())
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(scalar).collect();
            items.join(", ")
        }
        other => other.to_string(),
    }
}

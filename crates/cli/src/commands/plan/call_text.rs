//! Tool calls as short texts for people: `edit src/cart.rs`, `$ cargo test`.

use cleveragents_domain::NamespacedName;
use cleveragents_domain::event::payloads::{ChangedLines, ToolCompleted};
use serde_json::Value;

/// The maximum length of a call's text, in characters.
const TEXT_MAXIMUM: usize = 160;

/// Returns what a call does, such as `read src/lib.rs`. The input may be abridged or invalid.
pub(super) fn call_text(tool: &NamespacedName, input: &Value) -> String {
    let full_name = tool.to_string();
    let name = full_name.strip_prefix("builtin/").unwrap_or(&full_name);
    let text = |key: &str| input.get(key).and_then(Value::as_str).map(one_line);
    let path = || text("path").unwrap_or_default();
    let pair = || match (text("from"), text("to")) {
        (Some(from), Some(to)) => format!("{from} → {to}"),
        _ => String::new(),
    };
    let (verb, object) = match name {
        "shell" => ("$", text("command").unwrap_or_else(|| "…".to_owned())),
        "file-read" => ("read", path() + &line_range(input)),
        "file-write" => ("write", path()),
        "file-edit" => ("edit", path()),
        "file-delete" => ("delete", path()),
        "file-move" => ("move", pair()),
        "file-copy" => ("copy", pair()),
        "file-list" => ("list", text("path").unwrap_or_else(|| ".".to_owned())),
        "file-search" => ("search", search_text(text("pattern"), text("path"))),
        "dir-create" => ("create folder", path()),
        "dir-delete" => ("delete folder", path()),
        "outline" => ("outline", path()),
        "git-status" => ("git status", String::new()),
        "git-diff" => ("git diff", path()),
        "git-log" => ("git log", path()),
        "reject" => ("reject", path()),
        "ask-user" => ("question:", text("question").unwrap_or_default()),
        "finish" => ("finished:", text("summary").unwrap_or_default()),
        "submit-strategy" => ("strategy:", text("summary").unwrap_or_default()),
        "record-decision" => ("decision:", text("chosen").unwrap_or_default()),
        _ => (full_name.as_str(), first_text(input)),
    };
    format!("{verb} {object}").trim_end().to_owned()
}

/// Returns what a completed call led to, such as `+4 −1`, `ok 12 s` or `exit 101, 3 s`. Empty if
/// there is nothing to say.
pub(super) fn result_text(completed: &ToolCompleted) -> String {
    let mut parts = Vec::new();
    if let Some(code) = completed.exit_code {
        let time = completed.duration_ms.map(duration_text);
        let time = time.unwrap_or_default();
        parts.push(match code {
            0 => format!("ok {time}").trim_end().to_owned(),
            _ if time.is_empty() => format!("exit {code}"),
            _ => format!("exit {code}, {time}"),
        });
    }
    if let Some(lines) = completed.lines {
        parts.push(lines_text(lines));
    }
    let omitted = completed.omitted.as_deref().unwrap_or_default();
    if !omitted.is_empty() {
        parts.push(format!("not kept: {}", omitted.join(", ")));
    }
    parts.join(", ")
}

/// Returns for example `+4 −1`.
fn lines_text(lines: ChangedLines) -> String {
    match (lines.added, lines.removed) {
        (added, 0) => format!("+{added}"),
        (0, removed) => format!("−{removed}"),
        (added, removed) => format!("+{added} −{removed}"),
    }
}

/// Returns for example `0.4 s`, `12 s` or `2 min 5 s`.
pub(super) fn duration_text(milliseconds: i64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        ..10 => format!("{seconds}.{} s", milliseconds % 1000 / 100),
        10..60 => format!("{seconds} s"),
        _ => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

/// Returns the first line that is not blank, shortened.
pub(super) fn one_line(text: &str) -> String {
    let mut lines = text.trim().lines();
    let first = lines.next().unwrap_or_default().trim_end();
    let cut = first.char_indices().nth(TEXT_MAXIMUM).map(|(end, _)| end);
    match cut {
        Some(end) => format!("{}…", &first[..end]),
        None if lines.next().is_some() => format!("{first} …"),
        None => first.to_owned(),
    }
}

fn line_range(input: &Value) -> String {
    let number = |key: &str| input.get(key).and_then(Value::as_u64);
    match (number("start_line"), number("end_line")) {
        (None, None) => String::new(),
        (start, None) => format!(":{}-", start.unwrap_or(1)),
        (start, Some(end)) => format!(":{}-{end}", start.unwrap_or(1)),
    }
}

fn search_text(pattern: Option<String>, path: Option<String>) -> String {
    let pattern = pattern.unwrap_or_default();
    match path {
        Some(path) => format!("`{pattern}` in {path}"),
        None => format!("`{pattern}`"),
    }
}

/// Returns the first text of an input, to recognise a call of a tool that this program does not
/// know.
fn first_text(input: &Value) -> String {
    let values = input.as_object().into_iter().flatten();
    let text = values
        .filter_map(|(_, value)| value.as_str())
        .map(one_line)
        .next();
    text.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(tool: &str, input: &Value) -> String {
        call_text(&tool.parse().unwrap(), input)
    }

    #[test]
    fn a_call_is_one_readable_line() {
        for (tool, input, expected) in [
            ("shell", json!({"command": "cargo test"}), "$ cargo test"),
            ("shell", json!({"command": "cd a\nmake"}), "$ cd a …"),
            ("file-read", json!({"path": "a"}), "read a"),
            (
                "file-read",
                json!({"path": "a", "start_line": 3, "end_line": 9}),
                "read a:3-9",
            ),
            ("file-move", json!({"from": "a", "to": "b"}), "move a → b"),
            ("file-list", json!({}), "list ."),
            (
                "file-search",
                json!({"pattern": "x+", "path": "src"}),
                "search `x+` in src",
            ),
            ("git-status", json!({}), "git status"),
            ("shell", json!({"bytes": 20_000}), "$ …"),
        ] {
            assert_eq!(text(&format!("builtin/{tool}"), &input), expected);
        }
        let other = text("shop/price", &json!({"of": "tea", "n": 2}));
        assert_eq!(other, "shop/price tea");
        let long = text("builtin/shell", &json!({"command": "x".repeat(500)}));
        assert_eq!(long.chars().count(), 2 + TEXT_MAXIMUM + 1);
    }

    #[test]
    fn durations_have_two_digits() {
        for (milliseconds, text) in [
            (40, "0.0 s"),
            (440, "0.4 s"),
            (12_900, "12 s"),
            (125_000, "2 min 5 s"),
        ] {
            assert_eq!(duration_text(milliseconds), text);
        }
    }
}

//! `json`: one indented envelope, or a single line after a stream of events.

use serde::Serialize;

use super::text::is_unsafe;

pub(super) fn render(envelope: &impl Serialize) -> String {
    finish(serde_json::to_string_pretty(envelope))
}

pub(super) fn render_line(value: &impl Serialize) -> String {
    finish(serde_json::to_string(value))
}

fn finish(rendered: serde_json::Result<String>) -> String {
    match rendered {
        Ok(text) => escape(&text) + "\n",
        // Cannot happen: envelopes have only string keys, which always serialise.
        Err(error) => format!(
            "{{\"status\":\"error\",\"messages\":[{:?}]}}\n",
            error.to_string()
        ),
    }
}

/// Escapes characters that JSON allows in strings but terminals interpret. They occur only inside
/// strings, so the meaning does not change.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if is_unsafe(character) && character != '\n' {
            escaped.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            escaped.push(character);
        }
    }
    escaped
}

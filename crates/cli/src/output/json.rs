//! `json`: one envelope, indented.

use serde::Serialize;

use super::text::is_unsafe;

pub(super) fn render(envelope: &impl Serialize) -> String {
    match serde_json::to_string_pretty(envelope) {
        Ok(text) => escape(&text) + "\n",
        // Envelopes are made of values with text keys, which always serialise.
        Err(error) => format!(
            "{{\"status\":\"error\",\"messages\":[{:?}]}}\n",
            error.to_string()
        ),
    }
}

/// Escapes what JSON allows in strings but terminals obey. Such characters stand nowhere else, so
/// the meaning stays.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match is_unsafe(character) && character != '\n' {
            true => escaped.push_str(&format!("\\u{:04x}", u32::from(character))),
            false => escaped.push(character),
        }
    }
    escaped
}

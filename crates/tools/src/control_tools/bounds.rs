//! Length limits of inputs.

use cleveragents_domain::tool::control::TEXT_MAXIMUM;
use cleveragents_ports::tools::ToolFailure;
use serde_json::Value;

use crate::builtin::invalid_input;

/// Checks all texts of an input at any depth. Errors name their location like schema errors do.
pub(super) fn check_all_texts(input: &Value) -> Result<(), ToolFailure> {
    check_texts("", input)
}

fn check_texts(pointer: &str, value: &Value) -> Result<(), ToolFailure> {
    match value {
        Value::String(text) if text.len() > TEXT_MAXIMUM => Err(invalid_input(format!(
            "at {pointer}: a text may have {TEXT_MAXIMUM} bytes, this one has {}",
            text.len()
        ))),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .try_for_each(|(index, item)| check_texts(&format!("{pointer}/{index}"), item)),
        Value::Object(entries) => entries
            .iter()
            .try_for_each(|(key, value)| check_texts(&format!("{pointer}/{key}"), value)),
        _ => Ok(()),
    }
}

/// Fails if one of these texts is blank.
pub(super) fn check_not_blank(
    pointer: &str,
    object: &Value,
    keys: &[&str],
) -> Result<(), ToolFailure> {
    let blank = |key: &&&str| {
        object[**key]
            .as_str()
            .is_some_and(|it| it.trim().is_empty())
    };
    match keys.iter().find(blank) {
        None => Ok(()),
        Some(key) => Err(invalid_input(format!(
            "at {pointer}/{key}: there is nothing in it"
        ))),
    }
}

/// Returns the entries of an optional list. Fails if there are more than `most`.
pub(super) fn bounded_entries<'a>(
    pointer: &str,
    object: &'a Value,
    key: &str,
    most: usize,
) -> Result<&'a [Value], ToolFailure> {
    let entries = object[key].as_array().map_or(&[][..], Vec::as_slice);
    match entries.len() {
        count if count > most => Err(invalid_input(format!(
            "at {pointer}/{key}: there may be {most} entries, there are {count}"
        ))),
        _ => Ok(entries),
    }
}

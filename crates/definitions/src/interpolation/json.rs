//! Converts JSON to template values and back, within limits.

use std::collections::BTreeMap;
use std::io;

use minijinja::Value;
use minijinja::value::ValueKind;
use serde_json::{Map, Number, Value as Json};

use super::{FillError, too_large_error};

/// Maximum nesting depth of a value converted back.
const DEPTH_MAXIMUM: usize = 64;

/// Error of a value that cannot be converted to JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum JsonConversionError {
    #[error("it is too large")]
    TooLarge,
    #[error("{0} is not a JSON value")]
    NotJson(String),
}

impl JsonConversionError {
    pub(super) fn into_fill_error(self, text: &str) -> FillError {
        match self {
            Self::TooLarge => too_large_error(text),
            Self::NotJson(found) => FillError::NotJson {
                text: text.to_owned(),
                found,
            },
        }
    }
}

/// Number of bytes left for filled-in values.
#[derive(Debug)]
pub(super) struct ByteBudget(usize);

impl ByteBudget {
    pub(super) fn new(bytes: usize) -> Self {
        Self(bytes)
    }

    pub(super) fn take(&mut self, bytes: usize) -> Result<(), JsonConversionError> {
        self.0 = self
            .0
            .checked_sub(bytes)
            .ok_or(JsonConversionError::TooLarge)?;
        Ok(())
    }
}

pub(super) fn to_value(json: &Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(value) => Value::from(*value),
        Json::String(text) => Value::from(text.as_str()),
        Json::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(integer), _, _) => Value::from(integer),
            (None, Some(integer), _) => Value::from(integer),
            (None, None, Some(float)) => Value::from(float),
            (None, None, None) => Value::from(number.to_string()),
        },
        Json::Array(items) => Value::from(items.iter().map(to_value).collect::<Vec<Value>>()),
        Json::Object(entries) => {
            let entry = |(key, value): (&String, &Json)| (key.clone(), to_value(value));
            Value::from(
                entries
                    .iter()
                    .map(entry)
                    .collect::<BTreeMap<String, Value>>(),
            )
        }
    }
}

/// Returns the approximate printed size of a value, in bytes.
pub(super) fn size_of(json: &Json) -> usize {
    match json {
        Json::String(text) => text.len() + 2,
        Json::Array(items) => items.iter().map(|item| size_of(item) + 1).sum(),
        Json::Object(entries) => entries
            .iter()
            .map(|(key, value)| key.len() + size_of(value) + 4)
            .sum(),
        _ => 8,
    }
}

pub(super) fn to_json(value: &Value, room: &mut ByteBudget) -> Result<Json, JsonConversionError> {
    to_json_at(value, room, 0)
}

fn to_json_at(
    value: &Value,
    room: &mut ByteBudget,
    depth: usize,
) -> Result<Json, JsonConversionError> {
    if depth > DEPTH_MAXIMUM {
        return Err(JsonConversionError::TooLarge);
    }
    room.take(1)?;
    match value.kind() {
        ValueKind::None => Ok(Json::Null),
        ValueKind::Bool => Ok(Json::Bool(value.is_true())),
        ValueKind::Number => number(value).map(Json::Number),
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            room.take(text.len())?;
            Ok(Json::from(text))
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let items = value.try_iter().map_err(|error| not_json(&error))?;
            let items = items.map(|item| to_json_at(&item, room, depth + 1));
            items
                .collect::<Result<Vec<Json>, JsonConversionError>>()
                .map(Json::from)
        }
        ValueKind::Map => {
            let mut entries = Map::new();
            for key in value.try_iter().map_err(|error| not_json(&error))? {
                let name = key.to_string();
                room.take(name.len())?;
                let item = value.get_item(&key).map_err(|error| not_json(&error))?;
                entries.insert(name, to_json_at(&item, room, depth + 1)?);
            }
            Ok(Json::Object(entries))
        }
        other => Err(JsonConversionError::NotJson(format!(
            "a value of the kind {other}"
        ))),
    }
}

fn number(value: &Value) -> Result<Number, JsonConversionError> {
    let refusal = || JsonConversionError::NotJson(format!("the number {value}"));
    if value.is_integer() {
        if let Some(integer) = value.as_i64() {
            return Ok(integer.into());
        }
        let integer = u64::try_from(value.clone()).map_err(|_| refusal())?;
        return Ok(integer.into());
    }
    let float = f64::try_from(value.clone()).map_err(|_| refusal())?;
    Number::from_f64(float).ok_or_else(refusal)
}

fn not_json(error: &minijinja::Error) -> JsonConversionError {
    JsonConversionError::NotJson(error.to_string())
}

/// Output of a text, limited by the budget.
#[derive(Debug)]
pub(super) struct BudgetedWriter<'a> {
    bytes: Vec<u8>,
    budget: &'a mut ByteBudget,
    is_full: bool,
}

impl<'a> BudgetedWriter<'a> {
    pub(super) fn new(budget: &'a mut ByteBudget) -> Self {
        Self {
            bytes: Vec::new(),
            budget,
            is_full: false,
        }
    }

    pub(super) fn finish(self) -> Result<String, JsonConversionError> {
        if self.is_full {
            return Err(JsonConversionError::TooLarge);
        }
        String::from_utf8(self.bytes)
            .map_err(|error| JsonConversionError::NotJson(error.to_string()))
    }
}

impl io::Write for BudgetedWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.budget.take(bytes.len()).is_err() {
            self.is_full = true;
            return Err(io::Error::other("there is no room left"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

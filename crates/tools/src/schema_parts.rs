//! Building blocks of the tools' schemas.

use serde_json::{Map, Value, json};

/// An object with only these properties. A name that ends with `?` is optional.
pub(crate) fn object<const N: usize>(properties: [(&str, Value); N]) -> Value {
    let mut required = Vec::new();
    let mut described = Map::new();
    for (name, schema) in properties {
        let plain = name.trim_end_matches('?');
        if plain == name {
            required.push(plain.to_owned());
        }
        described.insert(plain.to_owned(), schema);
    }
    json!({
        "type": "object",
        "properties": described,
        "required": required,
        "additionalProperties": false,
    })
}

pub(crate) fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

pub(crate) fn non_empty_text(description: &str) -> Value {
    json!({"type": "string", "minLength": 1, "description": description})
}

/// A path as tools accept it.
pub(crate) fn path(description: &str) -> Value {
    let description = format!(
        "{description} Relative to the root of the sandbox, without `..`; `%` is written `%25`."
    );
    json!({"type": "string", "description": description})
}

pub(crate) fn integer(from: u64, to: u64, description: &str) -> Value {
    json!({"type": "integer", "minimum": from, "maximum": to, "description": description})
}

pub(crate) fn count(description: &str) -> Value {
    json!({"type": "integer", "minimum": 0, "description": description})
}

/// A number from 0 to 1.
pub(crate) fn fraction(description: &str) -> Value {
    json!({"type": "number", "minimum": 0, "maximum": 1, "description": description})
}

pub(crate) fn boolean(description: &str) -> Value {
    json!({"type": "boolean", "description": description})
}

pub(crate) fn one_of(values: &[&str], description: &str) -> Value {
    json!({"type": "string", "enum": values, "description": description})
}

pub(crate) fn list(items: Value, description: &str) -> Value {
    json!({"type": "array", "items": items, "description": description})
}

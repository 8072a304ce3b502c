//! Arguments of earlier calls, as repeated to a model.

use serde_json::{Map, Value};

/// Returns the arguments as the object that every vendor requires. If the model's text is not an
/// object, wraps the text in one.
pub(crate) fn parse_object(arguments: &str) -> Map<String, Value> {
    match serde_json::from_str(arguments) {
        Ok(Value::Object(object)) => object,
        _ => Map::from_iter([("unreadable".to_owned(), Value::from(arguments))]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_object_arguments_are_kept_as_text() {
        assert_eq!(
            Value::Object(parse_object(r#"{"a":1}"#)).to_string(),
            r#"{"a":1}"#
        );
        for wrong in ["", "[1]", "{\"a\"", "null"] {
            assert_eq!(parse_object(wrong)["unreadable"], wrong);
        }
    }
}

//! What the user can do next.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::request::Request;

/// A step that the user can take next. A front end displays a request in its own form: the command
/// line as a command, a page as a button.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum NextStep {
    /// A request to send. A value in upper case is for the user to fill in.
    Request {
        name: String,
        arguments: Map<String, Value>,
    },
    /// Something to do or to know that is not a request.
    Text { text: String },
}

impl NextStep {
    /// Returns the step of sending `request`. Fields without a value are left out.
    pub fn send<R: Request>(request: &R) -> Self {
        // A request is a struct with string keys, which always serialises to an object.
        let value = serde_json::to_value(request).unwrap_or_default();
        let Value::Object(mut arguments) = value else {
            return Self::fill_in::<R>(&[]);
        };
        arguments.retain(|_, value| !is_absent(value));
        Self::Request {
            name: R::NAME.to_owned(),
            arguments,
        }
    }

    /// Returns the step of sending a request of this type whose arguments the user has to complete.
    pub fn fill_in<R: Request>(arguments: &[(&str, &str)]) -> Self {
        let argument = |(name, value): &(&str, &str)| ((*name).to_owned(), Value::from(*value));
        Self::Request {
            name: R::NAME.to_owned(),
            arguments: arguments.iter().map(argument).collect(),
        }
    }

    /// Sets a flag of a request.
    #[must_use]
    pub fn with_flag(mut self, flag: &str) -> Self {
        if let Self::Request { arguments, .. } = &mut self {
            arguments.insert(flag.to_owned(), Value::Bool(true));
        }
        self
    }
}

fn is_absent(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

impl From<String> for NextStep {
    fn from(text: String) -> Self {
        Self::Text { text }
    }
}

impl From<&str> for NextStep {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

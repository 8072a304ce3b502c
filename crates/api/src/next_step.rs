//! Next steps: requests or commands for the user.

use cleveragents_domain::id::PlanId;
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
        /// When or where the step helps, if not here and now: `on that machine`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        condition: Option<String>,
    },
    /// Watching the events and the progress of a plan.
    Watch { plan: PlanId },
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
            condition: None,
        }
    }

    /// Returns the step of sending a request of this type whose arguments the user has to complete.
    pub fn fill_in<R: Request>(arguments: &[(&str, &str)]) -> Self {
        let argument = |(name, value): &(&str, &str)| ((*name).to_owned(), Value::from(*value));
        Self::Request {
            name: R::NAME.to_owned(),
            arguments: arguments.iter().map(argument).collect(),
            condition: None,
        }
    }

    /// Sets a flag of a request.
    #[must_use]
    pub fn with_flag(self, flag: &str) -> Self {
        self.with_argument(flag, true)
    }

    /// Sets an argument of a request.
    #[must_use]
    pub fn with_argument(mut self, name: &str, value: impl Into<Value>) -> Self {
        if let Self::Request { arguments, .. } = &mut self {
            arguments.insert(name.to_owned(), value.into());
        }
        self
    }

    /// Says when or where a request helps: `when they have stopped`.
    #[must_use]
    pub fn with_condition(mut self, text: &str) -> Self {
        if let Self::Request { condition, .. } = &mut self {
            *condition = Some(text.to_owned());
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

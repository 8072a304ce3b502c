//! Tools by which actors report to their plan: done, a strategy, a decision, a question. They touch
//! nothing; the engine acts on the reports.
//!
//! The maximum lengths of texts and lists are checked here and reported as errors, not stated in the
//! schemas: servers that compile the schemas of all tools into one grammar refuse every request if a
//! limit in them is large.

mod bounds;
pub(crate) mod decision;
pub(crate) mod finish;
pub(crate) mod question;
pub(crate) mod strategy;

use serde_json::{Value, json};

use crate::schema_parts::object;

/// Timeout of each of these calls; none does any work.
const TIMEOUT_SECONDS: u64 = 60;

/// The schema of an output that only acknowledges the input.
fn acknowledgement_schema(property: &'static str, description: &str) -> Value {
    object([(
        property,
        json!({"type": "boolean", "const": true, "description": description}),
    )])
}

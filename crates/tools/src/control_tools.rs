//! What actors say to their plan: that they are done, what they mean to do, what they chose, what
//! they have to ask. These tools touch nothing; the engine acts on what was said.
//!
//! How long texts and lists may be is checked here and told in words, not stated in the schemas:
//! servers that turn the schemas of all tools into one grammar refuse every request if a bound in
//! them is large.

mod bounds;
pub(crate) mod decision;
pub(crate) mod finish;
pub(crate) mod question;
pub(crate) mod strategy;

use serde_json::{Value, json};

use crate::schema_parts::object;

/// How long each of these calls may take; none does any work.
const TIMEOUT_SECONDS: u64 = 60;

/// The schema of an answer that only says that it was heard.
fn acknowledgement_schema(property: &'static str, description: &str) -> Value {
    object([(
        property,
        json!({"type": "boolean", "const": true, "description": description}),
    )])
}

//! Tools: the operations that actors use in a sandbox.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The purpose of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolType {
    /// Does something.
    Tool,
    /// Checks a condition, and gates Apply.
    Validation,
}

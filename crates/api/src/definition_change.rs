//! The effect of registering a definition.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a definition is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DefinitionChange {
    Added,
    /// It replaced the one of the same name.
    Updated,
}

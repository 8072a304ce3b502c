//! Files of the user that a plan does not see.

use cleveragents_domain::uncommitted::UncommittedFile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The uncommitted files of a checkout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UncommittedFiles {
    /// The path of the checkout.
    pub checkout: String,
    pub files: Vec<UncommittedFile>,
}

//! Conflicts of an apply or a rebase, in answers and failures.

use cleveragents_domain::conflict::Conflict;
use cleveragents_domain::{AbsolutePath, ResourcePath};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanConflict {
    /// `None` if it does not concern a single path.
    pub path: Option<ResourcePath>,
    /// The working tree or folder it is in; `None` if it is in no folder.
    pub place: Option<AbsolutePath>,
    /// As a sentence.
    pub reason: String,
}

impl From<&Conflict> for PlanConflict {
    fn from(conflict: &Conflict) -> Self {
        Self {
            path: conflict.path.clone(),
            place: conflict.place.clone(),
            reason: conflict.reason.to_string(),
        }
    }
}

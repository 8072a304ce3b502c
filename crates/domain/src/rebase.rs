//! Records of rebasing a plan onto the current state of its targets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::NamespacedName;
use crate::project::ResourceType;
use crate::text_enum::text_enum;

/// A resource of a plan, with the old and new base of its sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RebasedResource {
    pub resource: NamespacedName,
    pub resource_type: ResourceType,
    /// The previous base: a commit, or the tree of a folder. `None` before the first commit.
    pub from: Option<String>,
    /// The new base: a commit, or the tree of a folder.
    pub to: Option<String>,
}

text_enum! {
    /// The effect of a rebase on the plan's work.
    RebasedWork: "outcome of a rebase" {
        /// It is kept, merged with the new base.
        Merged = "merged",
        /// It is discarded and repeated.
        Requeued = "requeued",
    }
}

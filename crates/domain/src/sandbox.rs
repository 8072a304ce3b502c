//! The stored record of a sandbox, which lets any process resume work in it.

use serde::{Deserialize, Serialize};

use crate::id::{PlanId, ResourceId, SandboxId};
use crate::name::NamespacedName;
use crate::plan::BaseSource;
use crate::project::{AbsolutePath, ResourceType};
use crate::text_enum::text_enum;
use crate::time::Timestamp;
use crate::tree::TreeId;

/// A private copy of one resource for one plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxRecord {
    pub id: SandboxId,
    pub plan_id: PlanId,
    pub resource_id: ResourceId,
    pub resource_name: NamespacedName,
    pub resource_path: AbsolutePath,
    pub resource_type: ResourceType,
    pub base: BaseSource,
    /// The node that holds the sandbox. `None` for records older than this field.
    #[serde(default)]
    pub node: Option<String>,
    pub state: SandboxState,
    pub folder: FolderState,
    /// `None` until the sandbox has been created.
    pub base_tree: Option<TreeId>,
    /// The commit that the base tree is, or is based on; `None` for a folder or before the first
    /// commit.
    pub base_commit: Option<String>,
    /// The tree after the last confirmed tool call.
    pub tree: Option<TreeId>,
    /// Notes about files that are missing from the sandbox or differ from what a user may expect.
    #[serde(default)]
    pub warnings: Vec<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Assigned by the store and checked on every update.
    pub version: i64,
}

text_enum! {
    SandboxState: "state of a sandbox" {
        /// About to be created, possibly half-created.
        Creating = "creating",
        /// In use.
        Active = "active",
        /// All of its changes are recorded.
        Captured = "captured",
        /// Its changes are in the target.
        Applied = "applied",
        /// Its changes were dropped.
        Discarded = "discarded",
    }
}

text_enum! {
    /// Whether a sandbox's folder exists.
    FolderState: "state of a folder" {
        Kept = "kept",
        /// About to be removed, possibly half-removed.
        Leaving = "leaving",
        Gone = "gone",
    }
}

impl SandboxRecord {
    /// Returns the node that holds the sandbox, if it is not `here` and its folder may still exist.
    pub fn other_node(&self, here: &str) -> Option<&str> {
        let node = self.node.as_deref().filter(|node| *node != here);
        node.filter(|_| self.folder != FolderState::Gone)
    }
}

impl SandboxState {
    /// Returns whether the transition to `next` is legal.
    pub fn can_become(self, next: Self) -> bool {
        use SandboxState::{Active, Applied, Captured, Creating, Discarded};
        matches!(
            (self, next),
            (Creating, Active | Discarded)
                | (Active, Captured | Discarded)
                | (Captured, Active | Applied | Discarded)
                // An applied sandbox can be unapplied and worked on again.
                | (Applied, Captured)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_follows_its_legal_states() {
        use SandboxState::{Active, Applied, Captured, Creating, Discarded};
        for pair in [Creating, Active, Captured, Applied].windows(2) {
            assert!(pair[0].can_become(pair[1]));
        }
        for state in [Creating, Active, Captured] {
            assert!(state.can_become(Discarded));
        }
        for next in SandboxState::ALL {
            assert!(!Discarded.can_become(*next));
            assert!(!next.can_become(*next));
        }
        assert!(!Creating.can_become(Applied));
        assert!(
            !Active.can_become(Applied),
            "what is not captured is not applied"
        );
    }
}

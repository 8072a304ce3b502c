//! What is remembered of a sandbox, so that any process can go on with it.

use serde::{Deserialize, Serialize};

use crate::id::{PlanId, ResourceId, SandboxId};
use crate::name::NamespacedName;
use crate::plan::BaseSource;
use crate::project::{AbsolutePath, ResourceType};
use crate::text_enum::text_enum;
use crate::time::Timestamp;
use crate::tree::TreeId;

/// A private tree of one resource of one plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxRecord {
    pub id: SandboxId,
    pub plan_id: PlanId,
    pub resource_id: ResourceId,
    pub resource_name: NamespacedName,
    pub resource_path: AbsolutePath,
    pub resource_type: ResourceType,
    pub base: BaseSource,
    /// The machine it is on; not known of those that were made before machines were told apart.
    #[serde(default)]
    pub node: Option<String>,
    pub state: SandboxState,
    pub folder: FolderState,
    /// Known once the sandbox was made.
    pub base_tree: Option<TreeId>,
    /// The commit the base is or stands on; none of a folder or before the first commit.
    pub base_commit: Option<String>,
    /// How the tree stood after the last confirmed call.
    pub tree: Option<TreeId>,
    /// What is not in it, or not as one might expect, in words.
    #[serde(default)]
    pub warnings: Vec<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Given and guarded by the store.
    pub version: i64,
}

text_enum! {
    /// How far a sandbox has come.
    SandboxState: "state of a sandbox" {
        /// Meant to be made; perhaps half-made.
        Creating = "creating",
        /// Worked in.
        Active = "active",
        /// All of its changes are on record.
        Captured = "captured",
        /// Its changes are where they belong.
        Applied = "applied",
        /// Its changes are not wanted.
        Discarded = "discarded",
    }
}

text_enum! {
    /// Whether a sandbox's folder is there.
    FolderState: "state of a folder" {
        Kept = "kept",
        /// Meant to be removed; perhaps half-removed.
        Leaving = "leaving",
        Gone = "gone",
    }
}

impl SandboxRecord {
    /// The machine it is on, if that is another one than `here` and there is something of it.
    pub fn other_node(&self, here: &str) -> Option<&str> {
        let node = self.node.as_deref().filter(|node| *node != here);
        node.filter(|_| self.folder != FolderState::Gone)
    }
}

impl SandboxState {
    /// Whether a sandbox may go from here to `next`.
    pub fn can_become(self, next: Self) -> bool {
        use SandboxState::{Active, Applied, Captured, Creating, Discarded};
        matches!(
            (self, next),
            (Creating, Active | Discarded)
                | (Active, Captured | Discarded)
                | (Captured, Active | Applied | Discarded)
                // What was applied can be taken back and worked on again.
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

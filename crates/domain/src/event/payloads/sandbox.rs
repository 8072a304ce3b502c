//! Payloads about sandboxes, their checkpoints and the validations of their contents.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::checkpoint::CheckpointTrigger;
use crate::id::{CheckpointId, DecisionId, SandboxId};
use crate::name::NamespacedName;
use crate::plan::BaseSource;
use crate::sandbox::{FolderState, SandboxState};
use crate::tree::TreeId;

/// A sandbox is about to be created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxIntended {
    pub sandbox_id: SandboxId,
    pub resource: NamespacedName,
    pub base: BaseSource,
}

/// A sandbox changed its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxStateChanged {
    pub sandbox_id: SandboxId,
    pub from: SandboxState,
    pub to: SandboxState,
    /// Written when the folder is about to be removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<FolderState>,
    pub tree: Option<TreeId>,
    /// Written when the sandbox is created or captured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warnings: Option<Vec<String>>,
}

/// The folder of a sandbox was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxRemoved {
    pub sandbox_id: SandboxId,
}

/// A checkpoint was created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointCreated {
    pub checkpoint_id: CheckpointId,
    /// Position among the plan's checkpoints.
    pub number: i64,
    pub trigger: CheckpointTrigger,
    pub decision_id: Option<DecisionId>,
    /// The number of the plan's last confirmed tool call.
    pub call_number: i64,
    pub label: String,
    pub trees: BTreeMap<SandboxId, TreeId>,
}

/// A plan's sandboxes were rolled back to an earlier state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointRestored {
    /// The checkpoint that preserves the state before the rollback.
    pub set_aside: CheckpointId,
    /// The number of the last tool call that was kept.
    pub call_number: i64,
    pub changes_undone: u64,
    pub calls_undone: u64,
    pub checkpoints_undone: u64,
    pub trees: BTreeMap<SandboxId, TreeId>,
}

/// The validations of a result, or of its merge with a target, ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ValidationsCompleted {
    /// The round of validations of the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
    /// The resource whose merge was validated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<NamespacedName>,
    /// The merged tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<TreeId>,
    pub required_passed: u64,
    pub required_failed: u64,
    pub informational_passed: u64,
    pub informational_failed: u64,
}

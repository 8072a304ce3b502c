//! Checkpoints: states of a plan's sandboxes that can be gone back to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::{CheckpointId, DecisionId, PlanId, SandboxId};
use crate::lifecycle::Phase;
use crate::text_enum::text_enum;
use crate::time::Timestamp;
use crate::tree::TreeId;

/// How every sandbox of a plan stood at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    pub id: CheckpointId,
    pub plan_id: PlanId,
    /// Place among the plan's checkpoints: 1, 2, 3 … Given by the store.
    pub number: i64,
    pub trigger: CheckpointTrigger,
    pub phase: Phase,
    pub attempt: u32,
    pub step: Option<u32>,
    /// The number of the plan's last confirmed tool call; 0 before the first.
    pub call_number: i64,
    /// The decision that was being carried out.
    pub decision_id: Option<DecisionId>,
    pub label: String,
    pub trees: BTreeMap<SandboxId, TreeId>,
    /// The decisions that going back from here superseded; going back to here reinstates them.
    #[serde(default)]
    pub superseded: Vec<DecisionId>,
    pub created_at: Timestamp,
    /// The checkpoint that was made before going back further than this one, if that happened.
    pub undone_by: Option<CheckpointId>,
}

text_enum! {
    /// Why a checkpoint was made.
    CheckpointTrigger: "reason for a checkpoint" {
        /// Before a tool that writes.
        ToolWrite = "on_tool_write",
        /// After a tool that writes.
        ToolWriteComplete = "on_tool_write_complete",
        SubplanSpawn = "on_subplan_spawn",
        Error = "on_error",
        /// Before going back to an earlier one, so that this can be undone too.
        Rollback = "on_rollback",
    }
}

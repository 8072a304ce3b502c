//! Checkpoints: states of a plan's sandboxes that can be restored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::{CheckpointId, DecisionId, PlanId, SandboxId};
use crate::lifecycle::Phase;
use crate::text_enum::text_enum;
use crate::time::Timestamp;
use crate::tree::TreeId;

/// The state of every sandbox of a plan at one point in time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    pub id: CheckpointId,
    pub plan_id: PlanId,
    /// Position among the plan's checkpoints: 1, 2, 3 … Assigned by the store.
    pub number: i64,
    pub trigger: CheckpointTrigger,
    pub phase: Phase,
    pub attempt: u32,
    pub step: Option<u32>,
    /// The number of the plan's last confirmed tool call; 0 before the first.
    pub call_number: i64,
    /// The decision that was being executed.
    pub decision_id: Option<DecisionId>,
    pub label: String,
    pub trees: BTreeMap<SandboxId, TreeId>,
    /// The decisions that a rollback from here superseded. Restoring this checkpoint reinstates
    /// them.
    #[serde(default)]
    pub superseded: Vec<DecisionId>,
    pub created_at: Timestamp,
    /// The checkpoint taken before a rollback beyond this one, if that happened.
    pub undone_by: Option<CheckpointId>,
}

text_enum! {
    CheckpointTrigger: "reason for a checkpoint" {
        /// Before a tool call that writes.
        ToolWrite = "on_tool_write",
        /// After a tool call that writes.
        ToolWriteComplete = "on_tool_write_complete",
        SubplanSpawn = "on_subplan_spawn",
        Error = "on_error",
        /// Before a rollback, so the rollback itself can be undone.
        Rollback = "on_rollback",
    }
}

//! What is remembered of each call of a tool.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{CheckpointId, PlanId, SandboxId, ToolCallId};
use crate::name::NamespacedName;
use crate::process::ProcessIdentity;
use crate::text_enum::text_enum;
use crate::time::Timestamp;
use crate::tree::TreeId;

/// A call that is about to be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewToolCall {
    pub id: ToolCallId,
    pub plan_id: PlanId,
    pub attempt: u32,
    pub step: Option<u32>,
    /// Which of the actor's own turns this is, counted from 1, and which call of that turn.
    pub turn: u32,
    pub slot: u32,
    pub tool: NamespacedName,
    pub actor: NamespacedName,
    pub sandbox_id: SandboxId,
    pub input: Value,
    /// What it may do outside the sandbox that must not be done twice, in words.
    #[serde(default)]
    pub side_effects: Vec<String>,
    /// How the sandbox's tree stands before it.
    pub tree_before: TreeId,
}

/// A call as it stands in the plan's record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCallRecord {
    #[serde(flatten)]
    pub call: NewToolCall,
    /// Place among the plan's calls: 1, 2, 3 … Given by the store.
    pub number: i64,
    pub state: ToolCallState,
    /// The process it started, if it started one.
    pub process: Option<ProcessIdentity>,
    pub output: Option<Value>,
    pub error: Option<String>,
    pub tree_after: Option<TreeId>,
    pub started_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    /// The checkpoint that holds what the call did, if that was undone by going back further.
    pub undone_by: Option<CheckpointId>,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCallEnd {
    pub state: ToolCallState,
    pub output: Option<Value>,
    pub error: Option<String>,
    pub tree_after: TreeId,
}

text_enum! {
    /// How far a call has come.
    ToolCallState: "state of a tool call" {
        /// Begun, and perhaps done in part.
        Invoked = "invoked",
        Completed = "completed",
        /// It failed; what it changed is recorded all the same.
        Errored = "errored",
        /// Its owner died during it, and the sandbox was set back to how it stood before.
        Interrupted = "interrupted",
    }
}

//! Records of tool calls.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{CheckpointId, DecisionId, PlanId, SandboxId, ToolCallId};
use crate::name::NamespacedName;
use crate::process::ProcessIdentity;
use crate::text_enum::text_enum;
use crate::time::Timestamp;
use crate::tree::TreeId;

/// A tool call that is about to start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewToolCall {
    pub id: ToolCallId,
    pub plan_id: PlanId,
    pub attempt: u32,
    pub step: Option<u32>,
    /// The decision that the call carries out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_id: Option<DecisionId>,
    /// The turn of the actor, counted from 1, and the call within that turn.
    pub turn: u32,
    pub slot: u32,
    pub tool: NamespacedName,
    pub actor: NamespacedName,
    pub sandbox_id: SandboxId,
    pub input: Value,
    /// Descriptions of effects outside the sandbox that must not be repeated.
    #[serde(default)]
    pub side_effects: Vec<String>,
    /// The sandbox's tree before the call.
    pub tree_before: TreeId,
}

/// A stored tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCallRecord {
    #[serde(flatten)]
    pub call: NewToolCall,
    /// Position among the plan's tool calls: 1, 2, 3 … Assigned by the store.
    pub number: i64,
    pub state: ToolCallState,
    /// The process that the call started, if any.
    pub process: Option<ProcessIdentity>,
    pub output: Option<Value>,
    pub error: Option<String>,
    pub tree_after: Option<TreeId>,
    pub started_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    /// The checkpoint that preserves the effects of the call, if a rollback undid them.
    pub undone_by: Option<CheckpointId>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCallEnd {
    pub state: ToolCallState,
    pub output: Option<Value>,
    pub error: Option<String>,
    pub tree_after: TreeId,
}

text_enum! {
    ToolCallState: "state of a tool call" {
        /// Started, possibly partly executed.
        Invoked = "invoked",
        Completed = "completed",
        /// It failed; its changes are recorded nevertheless.
        Errored = "errored",
        /// The owner died during the call, and the sandbox was rolled back to the state before it.
        Interrupted = "interrupted",
    }
}

text_enum! {
    /// Reason for the refusal of a tool call.
    RefusalKind: "kind of refusal" {
        UnknownTool = "unknown_tool",
        Input = "input",
        ReadOnlyPlan = "read_only_plan",
        UnsafeTool = "unsafe_tool",
        /// The call names no resource, or one that the plan does not use.
        Resource = "resource",
        /// A guard of the profile refused it.
        Guard = "guard",
        /// A limit of the profile was reached.
        Limit = "limit",
        /// A guard refused it that the user can override by approval.
        NeedsApproval = "needs_approval",
    }
}

//! Payloads about tool calls and their changes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::nullable;
use crate::change::{ChangeEntry, ResourcePath};
use crate::changeset::ChangesetRecord;
use crate::id::{ChangesetId, SandboxId, ToolCallId};
use crate::name::NamespacedName;
use crate::process::ProcessIdentity;
use crate::tool_call::RefusalKind;
use crate::tree::TreeId;

/// A tool call began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolInvoked {
    pub tool_call_id: ToolCallId,
    /// Position among the plan's tool calls.
    pub number: i64,
    pub tool: NamespacedName,
    pub actor: NamespacedName,
    pub step: Option<u32>,
    pub turn: u32,
    pub sandbox_id: SandboxId,
    /// The input, or its size and hash if it is too long for the journal.
    pub input: Value,
}

/// A tool call succeeded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCompleted {
    pub tool_call_id: ToolCallId,
    pub number: i64,
    pub tool: NamespacedName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
    /// The number of recorded changes.
    pub changes: u64,
    /// Changes that are not part of the result, each as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted: Option<Vec<String>>,
    /// The exit code of the command that the call ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// The changed lines of the file that the call wrote, where they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<ChangedLines>,
    /// The sandbox's tree after the call.
    pub tree: TreeId,
    /// Always `null` if it is there.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "nullable"
    )]
    pub error: Option<Option<String>>,
}

/// Numbers of changed lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedLines {
    pub added: u64,
    pub removed: u64,
}

/// A tool call failed; its changes are recorded nevertheless.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolErrored {
    pub tool_call_id: ToolCallId,
    pub number: i64,
    pub tool: NamespacedName,
    pub duration_ms: Option<i64>,
    /// The number of recorded changes.
    pub changes: u64,
    /// Changes that are not part of the result, each as a sentence.
    pub omitted: Vec<String>,
    /// The sandbox's tree after the call.
    pub tree: TreeId,
    pub error: Option<String>,
}

/// A tool call was stopped, or its owner died during the call and it was rolled back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolInterrupted {
    pub tool_call_id: ToolCallId,
    pub number: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<NamespacedName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
    /// The number of recorded changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<u64>,
    /// Changes that are not part of the result, each as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted: Option<Vec<String>>,
    /// The sandbox's tree after the call.
    pub tree: TreeId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A guard, a flag or a schema refused a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolRefused {
    pub tool: NamespacedName,
    pub actor: NamespacedName,
    pub step: Option<u32>,
    pub turn: u32,
    pub kind: RefusalKind,
    pub reason: String,
}

/// A tool started a process. The process does nothing before this event is committed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessStarted {
    pub tool_call_id: ToolCallId,
    pub process: ProcessIdentity,
}

/// A changeset was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ChangesetStarted(pub ChangesetRecord);

/// A changeset was closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangesetClosed {
    pub changeset_id: ChangesetId,
    /// The number of its entries.
    pub entries: i64,
}

/// A change was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeRecorded {
    pub changeset_id: ChangesetId,
    pub entry: ChangeEntry,
}

/// The user removed parts of the result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeRejected {
    pub path: ResourcePath,
    /// The number of the hunk; `None` for the whole file.
    pub hunk: Option<u32>,
    pub why: String,
}

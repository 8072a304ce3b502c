//! Changesets: groups of changes that belong together.
//!
//! The header is stored when a changeset is started, so an empty changeset is visible too. Every
//! change names its changeset (law 4); there is no global current changeset.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::change::{ChangeEntry, FileOperation, FileState, ResourcePath};
use crate::id::{ChangesetId, CheckpointId, PlanId, SandboxId, ToolCallId};
use crate::name::NamespacedName;
use crate::text_enum::text_enum;
use crate::time::Timestamp;

/// An ordered record of changes of one sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangesetRecord {
    pub id: ChangesetId,
    pub plan_id: PlanId,
    pub sandbox_id: SandboxId,
    /// The attempt of the plan in which it was started.
    pub attempt: u32,
    /// The strategy step it belongs to, counted from 1.
    pub step: Option<u32>,
    pub state: ChangesetState,
    /// The number of entries, which is also the sequence number of the last entry.
    pub entries: i64,
    pub started_at: Timestamp,
    pub closed_at: Option<Timestamp>,
}

text_enum! {
    /// Whether a changeset accepts more changes.
    ChangesetState: "state of a changeset" {
        Open = "open",
        Closed = "closed",
    }
}

/// A change to be recorded. The store assigns its sequence number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewChange {
    pub path: ResourcePath,
    pub operation: FileOperation,
    pub before: Option<FileState>,
    pub after: Option<FileState>,
    pub tool_call_id: ToolCallId,
    /// The number of that tool call in its plan.
    pub call_number: i64,
    pub actor: NamespacedName,
    pub step: Option<u32>,
}

impl NewChange {
    pub fn into_entry(self, sequence: i64) -> ChangeEntry {
        ChangeEntry {
            sequence,
            path: self.path,
            operation: self.operation,
            before: self.before,
            after: self.after,
            tool_call_id: self.tool_call_id,
            actor: self.actor,
            step: self.step,
        }
    }
}

/// An entry stored in its changeset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedChange {
    pub changeset_id: ChangesetId,
    #[serde(flatten)]
    pub entry: ChangeEntry,
    /// The checkpoint that preserves the change, if a rollback undid it.
    pub undone_by: Option<CheckpointId>,
}

//! Changesets: which changes belong together.
//!
//! The header is stored when a changeset is started, so an empty one is there for everybody. A
//! change is recorded through the handle of its changeset (law 4); there is no current one.

use serde::{Deserialize, Serialize};

use crate::change::{ChangeEntry, FileOperation, FileState, ResourcePath};
use crate::id::{ChangesetId, CheckpointId, PlanId, SandboxId, ToolCallId};
use crate::name::NamespacedName;
use crate::text_enum::text_enum;
use crate::time::Timestamp;

/// An ordered record of changes of one sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangesetRecord {
    pub id: ChangesetId,
    pub plan_id: PlanId,
    pub sandbox_id: SandboxId,
    /// The plan's attempt it was started in.
    pub attempt: u32,
    /// The step of the strategy it belongs to, counted from 1.
    pub step: Option<u32>,
    pub state: ChangesetState,
    /// How many entries it has; the last one has this sequence.
    pub entries: i64,
    pub started_at: Timestamp,
    pub closed_at: Option<Timestamp>,
}

text_enum! {
    /// Whether a changeset takes more changes.
    ChangesetState: "state of a changeset" {
        Open = "open",
        Closed = "closed",
    }
}

/// A change to be recorded; its place is given by the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewChange {
    pub path: ResourcePath,
    pub operation: FileOperation,
    pub before: Option<FileState>,
    pub after: Option<FileState>,
    pub tool_call_id: ToolCallId,
    /// The number of that call in its plan.
    pub call_number: i64,
    pub actor: NamespacedName,
    pub step: Option<u32>,
}

impl NewChange {
    /// The entry at `sequence` of its changeset.
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

/// An entry as it stands in its changeset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedChange {
    pub changeset_id: ChangesetId,
    #[serde(flatten)]
    pub entry: ChangeEntry,
    /// The checkpoint that holds the change, if it was undone by going back further.
    pub undone_by: Option<CheckpointId>,
}

//! What is remembered of bringing a plan's changes to where they belong, and back.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ResourcePath;
use crate::id::{ApplyId, PlanId, SandboxId};
use crate::text_enum::text_enum;
use crate::time::Timestamp;

/// One attempt, over all of the plan's resources.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApplyRecord {
    pub id: ApplyId,
    pub plan_id: PlanId,
    /// Place among the plan's attempts: 1, 2, 3 … Given by the store.
    pub number: i64,
    pub direction: ApplyDirection,
    /// The machine its targets are on.
    pub node: String,
    /// Where to, as it was asked for.
    pub destination: Value,
    pub state: ApplyState,
    pub resources: Vec<ApplyPart>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Given and guarded by the store.
    pub version: i64,
}

/// One resource of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApplyPart {
    /// What the target knows this part by.
    pub id: ApplyId,
    pub sandbox_id: SandboxId,
    pub state: ApplyPartState,
    /// All that is needed to finish it or to take it back.
    pub intent: Option<Value>,
    /// What came of it, such as the commit that was made.
    pub result: Option<Value>,
    /// What stands in the way, one line a path.
    #[serde(default)]
    pub obstacles: Vec<Value>,
    /// What was written and still stands, of a part that stopped.
    #[serde(default)]
    pub written: Vec<ResourcePath>,
}

impl ApplyRecord {
    /// Whether something of it is in a target: a part is done, or stopped half-way.
    pub fn has_written(&self) -> bool {
        let is_there =
            |part: &ApplyPart| part.state == ApplyPartState::Done || !part.written.is_empty();
        self.resources.iter().any(is_there)
    }
}

text_enum! {
    ApplyDirection: "direction" {
        Apply = "apply",
        Unapply = "unapply",
    }
}

text_enum! {
    /// How far an attempt has come. Before `decided` it is only taken back, after it it only goes
    /// forward.
    ApplyState: "state of an apply" {
        Preparing = "preparing",
        Decided = "decided",
        Done = "done",
        /// Somebody else changed a target after the decision.
        Stopped = "stopped",
        TakenBack = "taken_back",
    }
}

text_enum! {
    /// How far one resource has come.
    ApplyPartState: "state of a part" {
        Meant = "meant",
        Ready = "ready",
        /// There is nothing to change.
        Nothing = "nothing",
        Done = "done",
        Stopped = "stopped",
        TakenBack = "taken_back",
    }
}

impl ApplyState {
    /// Whether it waits for somebody to clear the way.
    pub fn is_stopped(self) -> bool {
        self == Self::Stopped
    }

    /// Whether somebody has to go on with it.
    pub fn is_unfinished(self) -> bool {
        matches!(self, Self::Preparing | Self::Decided)
    }
}

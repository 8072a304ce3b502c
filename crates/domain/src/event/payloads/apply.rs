//! Payloads about applying a plan's changes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::apply_record::{ApplyDirection, Destination};
use crate::conflict::Conflict;
use crate::id::{ApplyId, SandboxId};
use crate::lifecycle::{Phase, PlanState};
use crate::rebase::{RebasedResource, RebasedWork};

/// The user requested that a plan's changes are applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApplyRequested {
    pub phase: Phase,
    pub state: PlanState,
    pub destination: Destination,
}

/// An attempt to apply or unapply is about to begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApplyIntended {
    pub apply_id: ApplyId,
    pub direction: ApplyDirection,
    pub destination: Destination,
}

/// All targets are ready. From here on, the apply can only go forward.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApplyDecided {
    pub apply_id: ApplyId,
    /// The number of resources.
    pub resources: u64,
}

/// An apply ended before all of its targets were changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApplyStopped {
    pub apply_id: ApplyId,
    pub conflicts: Vec<Conflict>,
}

/// The user accepted the current state of the targets as the result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApplySettled {
    pub apply_id: ApplyId,
    /// The sandboxes whose targets were accepted.
    pub left_as_they_stand: Vec<SandboxId>,
}

/// An apply was aborted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApplyAborted {
    pub apply_id: ApplyId,
    pub reason: String,
    /// Errors of removing prepared data, one text per resource.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncollected: Vec<String>,
}

/// A plan's changes were reversed in the targets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanUnapplied {
    pub apply_id: ApplyId,
}

/// The plan's sandboxes were rebased onto the current commits of their targets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanRebased {
    pub outcome: RebasedWork,
    pub resources: Vec<RebasedResource>,
    pub conflicts: Vec<Conflict>,
}

//! `plan.rollback`

use cleveragents_domain::id::{CheckpointId, PlanId};
use cleveragents_domain::{Phase, PlanState, ResourcePath};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PlanReference, PlanSummary};
use crate::request::{Request, RequestKind};

/// Restores a plan's sandboxes to a checkpoint. An apply that stopped half-way is aborted and undone
/// first.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanRollback {
    pub plan: PlanReference,
    /// The number of a checkpoint, its id, or at least four characters of either end of the id. 0
    /// is the state before the first call.
    pub checkpoint: String,
}

impl Request for PlanRollback {
    type Answer = RolledBackPlan;
    const NAME: &'static str = "plan.rollback";
    const KIND: RequestKind = RequestKind::Write;
}

/// A plan after a rollback.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RolledBackPlan {
    #[serde(flatten)]
    pub plan: PlanSummary,
    pub rollback_summary: RollbackSummary,
    pub changes_reverted: Vec<RevertedFile>,
    pub impact: RollbackImpact,
    pub post_rollback_state: PostRollbackState,
    /// The state before. A rollback to it undoes this one.
    pub undo: UndoCheckpoint,
}

/// The restored checkpoint.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RollbackSummary {
    pub plan: PlanId,
    pub checkpoint: CheckpointId,
    pub number: i64,
    pub label: String,
    pub files_reverted: usize,
}

/// A restored file.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RevertedFile {
    pub file: ResourcePath,
    pub action: RestoreAction,
}

/// The effect on a file or a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RestoreAction {
    /// It has the content of the checkpoint again.
    #[serde(rename = "set back")]
    Restored,
    /// It had that content already.
    #[serde(rename = "unchanged")]
    Unchanged,
}

/// The work that a rollback undid.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RollbackImpact {
    /// The number of child plans that undone decisions had created.
    pub child_plans_invalidated: usize,
    pub sandbox: RestoreAction,
    pub changes_undone: u64,
    /// The number of decisions after the checkpoint, which are superseded now.
    pub decisions_after_cp: usize,
    pub tool_calls_after_cp: u64,
}

/// The plan after the rollback.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PostRollbackState {
    pub phase: Phase,
    pub state: PlanState,
    /// The number of checkpoints that a rollback can restore.
    pub checkpoints_remaining: usize,
}

/// A checkpoint whose restoration undoes a request.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct UndoCheckpoint {
    pub checkpoint: CheckpointId,
    pub number: i64,
}

//! `plan.checkpoints`

use std::collections::BTreeMap;

use cleveragents_domain::checkpoint::{Checkpoint, CheckpointTrigger};
use cleveragents_domain::id::{CheckpointId, DecisionId, PlanId, SandboxId};
use cleveragents_domain::{Phase, Timestamp, TreeId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PlanReference;
use crate::request::{Request, RequestKind};

/// Lists the checkpoints of a plan, newest first.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanCheckpoints {
    pub plan: PlanReference,
}

impl Request for PlanCheckpoints {
    type Answer = CheckpointPage;
    const NAME: &'static str = "plan.checkpoints";
    const KIND: RequestKind = RequestKind::Read;
}

/// The checkpoints of a plan.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointPage {
    pub plan_id: PlanId,
    pub checkpoints: Vec<PlanCheckpoint>,
    pub summary: CheckpointCounts,
}

/// The number of checkpoints.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointCounts {
    pub total: usize,
}

/// A state of a plan's sandboxes that can be restored.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanCheckpoint {
    pub id: CheckpointId,
    /// Position among the plan's checkpoints: 1, 2, 3 …
    pub number: i64,
    pub trigger: CheckpointTrigger,
    pub phase: Phase,
    pub attempt: u32,
    pub step: Option<u32>,
    /// The number of the plan's last confirmed tool call; 0 before the first.
    pub call_number: i64,
    pub decision_id: Option<DecisionId>,
    pub label: String,
    pub trees: BTreeMap<SandboxId, TreeId>,
    pub created_at: Timestamp,
    /// The checkpoint taken before a rollback beyond this one, if that happened.
    pub undone_by: Option<CheckpointId>,
}

impl From<Checkpoint> for PlanCheckpoint {
    fn from(checkpoint: Checkpoint) -> Self {
        Self {
            id: checkpoint.id,
            number: checkpoint.number,
            trigger: checkpoint.trigger,
            phase: checkpoint.phase,
            attempt: checkpoint.attempt,
            step: checkpoint.step,
            call_number: checkpoint.call_number,
            decision_id: checkpoint.decision_id,
            label: checkpoint.label,
            trees: checkpoint.trees,
            created_at: checkpoint.created_at,
            undone_by: checkpoint.undone_by,
        }
    }
}

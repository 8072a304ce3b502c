//! `plan.status`

use cleveragents_domain::error_record::{ErrorCategory, RecoveryAction};
use cleveragents_domain::id::CheckpointId;
use cleveragents_domain::sandbox::SandboxState;
use cleveragents_domain::{Phase, ProfileName, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PlanCost, PlanOwner, PlanReference, PlanSandbox, PlanSummary};
use crate::request::{Request, RequestKind};

/// Returns the state of a plan.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanStatus {
    pub plan: PlanReference,
}

impl Request for PlanStatus {
    type Answer = PlanStatusAnswer;
    const NAME: &'static str = "plan.status";
    const KIND: RequestKind = RequestKind::Read;
}

/// A plan with its progress, its work so far, and why it stopped.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanStatusAnswer {
    #[serde(flatten)]
    pub plan: PlanSummary,
    pub description: String,
    pub automation: ProfileName,
    pub reversions: u32,
    /// The reason for waiting, as a sentence.
    pub waiting_text: Option<String>,
    pub progress: Vec<PhaseProgress>,
    pub timing: PlanTiming,
    pub execution: PlanExecution,
    pub cost: PlanCost,
    /// The process that runs the plan.
    pub owner: Option<PlanOwner>,
    pub error: Option<PlanStop>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseProgress {
    pub step: Phase,
    pub status: PhaseStatus,
}

/// The progress of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PhaseStatus {
    Done,
    Running,
    Stopped,
    Queued,
}

/// When the plan was created, started and finished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanTiming {
    pub started: Option<Timestamp>,
    /// The time since its creation, until now or until it was finished, such as `1m 09s`.
    pub elapsed: String,
    /// Always `null`: nothing estimates it yet.
    pub eta: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub finished_at: Option<Timestamp>,
}

/// The work of the plan so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanExecution {
    /// The state of the first sandbox.
    pub sandbox: Option<SandboxState>,
    pub sandboxes: Vec<PlanSandbox>,
    pub tool_calls: u64,
    /// Distinct paths of the changes that were not undone.
    pub files_modified: usize,
    /// Number of complete child plans, such as `1/2 complete`.
    pub child_plans: String,
    /// Checkpoints that a rollback can restore.
    pub checkpoints: usize,
    /// The newest checkpoint, not counting those that a rollback took of the state it replaced.
    pub last_checkpoint: Option<CheckpointId>,
}

/// The reason for the plan's stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanStop {
    pub message: String,
    /// Always `null`: the tool is not recorded with the error yet.
    pub tool: Option<String>,
    pub step: Option<u32>,
    pub checkpoint: Option<CheckpointId>,
    /// `false` if the plan is finished.
    pub recoverable: bool,
    pub category: Option<ErrorCategory>,
    pub recovery: Option<RecoveryAction>,
}

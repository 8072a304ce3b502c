//! `plan.cancel`

use cleveragents_domain::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PlanReference, PlanSummary};
use crate::request::{Request, RequestKind};

/// Cancels a plan. If a process runs it, that process is asked to stop. An apply that stopped
/// half-way is aborted and undone first.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanCancel {
    pub plan: PlanReference,
    /// The reason, for the record.
    #[serde(default)]
    pub reason: Option<String>,
    /// The number of seconds to wait for the process that runs the plan; 30 if `None`.
    #[serde(default)]
    pub wait: Option<u64>,
}

impl PlanCancel {
    /// Returns the request without a reason of its own.
    pub fn new(plan: impl Into<PlanReference>) -> Self {
        Self {
            plan: plan.into(),
            reason: None,
            wait: None,
        }
    }
}

impl Request for PlanCancel {
    type Answer = CancelledPlan;
    const NAME: &'static str = "plan.cancel";
    const KIND: RequestKind = RequestKind::Write;
}

/// A plan that is cancelled, or was finished before.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CancelledPlan {
    #[serde(flatten)]
    pub plan: PlanSummary,
    pub reason: Option<String>,
    /// `None` if the plan was finished in another way.
    pub cancelled_at: Option<Timestamp>,
    /// The plan's work; `None` if it has no sandbox.
    pub sandbox: Option<CancelledPlanSandbox>,
    pub child_plans: CancelledChildPlans,
    /// Commands to start over.
    pub recovery: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CancelledPlanSandbox {
    pub status: PreservationStatus,
    /// The number of files that the plan changed.
    pub files_modified: usize,
    pub checkpoints: usize,
}

/// Whether the files of all sandboxes still exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PreservationStatus {
    Preserved,
    Removed,
}

/// The child plans of a cancelled plan, by their state.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CancelledChildPlans {
    pub completed: usize,
    pub cancelled: usize,
    /// Whether the sandboxes of all child plans still exist; `None` if there are no child plans.
    pub artifacts_preserved: Option<bool>,
}

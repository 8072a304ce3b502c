//! `plan.execute`

use cleveragents_domain::Timestamp;
use cleveragents_domain::ValidationSummary;
use cleveragents_domain::id::OwnerId;
use cleveragents_domain::strategy::StrategyStep;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PlanCost, PlanReference, PlanSandbox, PlanSummary};
use crate::request::{Request, RequestKind};

/// Requests that a plan runs until it needs the user. Approves a strategy or a tool call that waits
/// for approval.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanExecute {
    pub plan: PlanReference,
    /// The caller does not wait for the result. Fails if a tool call waits for approval, because
    /// the user has to see what it does.
    #[serde(default)]
    pub detach: bool,
}

impl Request for PlanExecute {
    type Answer = ExecutedPlan;
    const NAME: &'static str = "plan.execute";
    const KIND: RequestKind = RequestKind::Work;
}

/// A plan with its recorded work.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ExecutedPlan {
    #[serde(flatten)]
    pub plan: PlanSummary,
    /// The first of `sandboxes`.
    pub sandbox: Option<PlanSandbox>,
    pub sandboxes: Vec<PlanSandbox>,
    pub started: Option<Timestamp>,
    /// The process that answers.
    pub worker: OwnerId,
    pub strategy_summary: StrategySummary,
    pub progress: Vec<WorkProgress>,
    pub tool_calls: u64,
    /// Changes that were not undone.
    pub changes: u64,
    /// The newest results of validations.
    pub validation: Option<ValidationSummary>,
    pub cost: PlanCost,
}

/// The newest strategy of a plan, and the decisions so far.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct StrategySummary {
    pub hash: Option<String>,
    pub summary: Option<String>,
    pub steps: Option<Vec<StrategyStep>>,
    pub approved_by: Option<String>,
    /// Decisions in force.
    pub decisions: usize,
    /// Rules that were reconciled.
    pub invariants: usize,
    /// Child plans that decisions created.
    pub planned_child_plans: usize,
}

/// The progress of one part of the work.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct WorkProgress {
    pub label: String,
    pub status: WorkStatus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WorkStatus {
    Done,
    Stopped,
    Queued,
}

//! `plan.apply`

use cleveragents_domain::apply_intent::AppliedResult;
use cleveragents_domain::apply_record::{ApplyPartState, Destination};
use cleveragents_domain::{NamespacedName, Phase, PlanState, Timestamp, ValidationSummary};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PlanCost, PlanReference, PlanSummary};
use crate::request::{Request, RequestKind};

/// Requests that a plan's changes are applied, and approves it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanApply {
    pub plan: PlanReference,
    /// The current branch if `None`.
    #[serde(default)]
    pub to: Option<Destination>,
    /// Marks the plan as applied without changing files, after an apply that was stopped after the
    /// point of no return.
    #[serde(default)]
    pub mark_applied: bool,
    /// The reason to apply the plan although required checks failed. Fails unless the plan's profile
    /// allows it.
    #[serde(default)]
    pub force_checks: Option<String>,
}

impl Request for PlanApply {
    type Answer = AppliedPlan;
    const NAME: &'static str = "plan.apply";
    const KIND: RequestKind = RequestKind::Work;
}

/// Returns what the user should know before they approve the apply of a plan.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanPreviewApply {
    pub plan: PlanReference,
}

impl Request for PlanPreviewApply {
    type Answer = ApplyPreview;
    const NAME: &'static str = "plan.preview_apply";
    const KIND: RequestKind = RequestKind::Read;
}

/// A plan whose result may be applied.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ApplyPreview {
    #[serde(flatten)]
    pub plan: PlanSummary,
    /// Whether an apply of the plan has begun and not ended: some files may be changed already.
    pub has_begun: bool,
    /// Whether `plan.run` started the plan, so that its work ends with the question whether to apply
    /// it.
    pub is_run: bool,
    /// Where the plan is applied; the current branch if `None`.
    pub destination: Option<Destination>,
    /// One warning for each known secret that the plan wrote into a file.
    pub secret_warnings: Vec<String>,
}

/// A plan and its newest apply.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AppliedPlan {
    #[serde(flatten)]
    pub plan: PlanSummary,
    /// Distinct paths of the changes that were not undone.
    pub artifacts: usize,
    pub applied_at: Option<Timestamp>,
    /// As it was requested.
    pub destination: Option<Destination>,
    pub resources: Vec<AppliedResource>,
    pub validation: Option<ValidationSummary>,
    pub sandbox_cleanup: SandboxCleanup,
    pub lifecycle: AppliedLifecycle,
    pub cost: PlanCost,
}

/// The apply of one resource.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AppliedResource {
    pub resource: Option<NamespacedName>,
    pub state: ApplyPartState,
    /// For example the `commit` that was made.
    pub result: Option<AppliedResult>,
}

/// The remainder of the plan's sandboxes.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SandboxCleanup {
    pub worktree: LeftoverState,
    /// The reference under which the result is published.
    pub branch: LeftoverState,
    pub checkpoint: LeftoverState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LeftoverState {
    /// There was none.
    None,
    Kept,
    Removed,
}

/// The life of the plan in numbers.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AppliedLifecycle {
    pub phase: Phase,
    pub state: PlanState,
    /// Such as `1m 09s`.
    pub total_duration: String,
    /// In US dollars, estimates included; `null` if no model was used or a price is unknown.
    pub total_cost: Option<f64>,
    pub decisions_made: usize,
    pub child_plans: usize,
}

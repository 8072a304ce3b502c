//! `plan.resume`, and what it would do.

use cleveragents_domain::id::OwnerId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::execute::ExecutedPlan;
use super::{PlanReference, PlanSummary};
use crate::request::{Request, RequestKind};

/// Requests that a plan runs as far as its profile and existing approvals allow. Approves nothing.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanResume {
    pub plan: PlanReference,
    /// Maximum cost of models over the whole plan, in US dollars. The budget does not change if
    /// `None`.
    #[serde(default)]
    pub max_usd: Option<f64>,
    /// Maximum number of tokens for models over the whole plan.
    #[serde(default)]
    pub max_tokens: Option<u64>,
    /// Maximum total run time of the plan, in seconds.
    #[serde(default)]
    pub max_wall: Option<u64>,
}

impl PlanResume {
    /// Returns the request that keeps the budget.
    pub fn new(plan: impl Into<PlanReference>) -> Self {
        Self {
            plan: plan.into(),
            max_usd: None,
            max_tokens: None,
            max_wall: None,
        }
    }
}

impl Request for PlanResume {
    type Answer = ExecutedPlan;
    const NAME: &'static str = "plan.resume";
    const KIND: RequestKind = RequestKind::Work;
}

/// Returns what resuming a plan would do.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanPreviewResume {
    pub plan: PlanReference,
}

impl Request for PlanPreviewResume {
    type Answer = ResumePreviewAnswer;
    const NAME: &'static str = "plan.preview_resume";
    const KIND: RequestKind = RequestKind::Read;
}

/// A plan and its next move.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ResumePreviewAnswer {
    #[serde(flatten)]
    pub plan: PlanSummary,
    /// Always `true`.
    pub dry_run: bool,
    pub outlook: ResumeOutlook,
    /// The process that runs the plan.
    pub owner: Option<OwnerId>,
}

/// The next work, and the work that is not repeated.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ResumeOutlook {
    pub next: NextMove,
    /// The next step of the strategy. `steps` is the total.
    pub step: Option<u32>,
    pub steps: usize,
    /// Confirmed tool calls, which are not made again.
    pub confirmed_calls: usize,
    /// Calls that started and did not end. Their changes are undone and they are made again.
    pub interrupted_calls: Vec<String>,
    /// Stored model answers, which are not requested again.
    pub stored_answers: usize,
    /// Model calls interrupted by the death of an owner. They are made again.
    pub interrupted_models: usize,
}

/// The next move of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NextMove {
    Strategize,
    /// The user approves the strategy, unless the profile allows it.
    Approve,
    Execute,
    /// The user applies the plan, unless the profile does.
    Apply,
    /// The plan is applied: the user has approved it, or its apply has begun.
    ApplyApproved,
    Nothing,
}

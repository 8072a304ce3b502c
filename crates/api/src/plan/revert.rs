//! `plan.revert`

use cleveragents_domain::{Phase, PlanState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PlanReference, PlanSummary};
use crate::request::{Request, RequestKind};

/// Returns a plan to Strategize for a new strategy. An apply that stopped half-way is aborted and
/// undone first.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanRevert {
    pub plan: PlanReference,
    /// The phase to return to; only `strategize`, the default, is valid.
    #[serde(default)]
    pub to_phase: Option<Phase>,
    /// The reason, for the record and the next attempt.
    #[serde(default)]
    pub reason: Option<String>,
}

impl PlanRevert {
    /// Returns the request without a reason of its own.
    pub fn new(plan: impl Into<PlanReference>) -> Self {
        Self {
            plan: plan.into(),
            to_phase: None,
            reason: None,
        }
    }
}

impl Request for PlanRevert {
    type Answer = RevertedPlan;
    const NAME: &'static str = "plan.revert";
    const KIND: RequestKind = RequestKind::Write;
}

/// A plan that was returned to Strategize, or was there before.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RevertedPlan {
    #[serde(flatten)]
    pub plan: PlanSummary,
    pub reason: String,
    /// The position before.
    pub from: PlanPosition,
    /// Number of reversions of the plan so far.
    pub reversions: u32,
    pub reversions_left: u32,
}

/// A phase of a plan and its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanPosition {
    pub phase: Phase,
    pub state: PlanState,
}

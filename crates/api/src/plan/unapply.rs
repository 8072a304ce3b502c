//! `plan.unapply`

use cleveragents_domain::apply_intent::AppliedResult;
use cleveragents_domain::id::ApplyId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PlanReference, PlanSummary};
use crate::request::{Request, RequestKind};

/// Undoes the changes of an applied plan.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanUnapply {
    pub plan: PlanReference,
}

impl Request for PlanUnapply {
    type Answer = UnappliedPlan;
    const NAME: &'static str = "plan.unapply";
    const KIND: RequestKind = RequestKind::Write;
}

/// A plan whose changes were undone.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct UnappliedPlan {
    #[serde(flatten)]
    pub plan: PlanSummary,
    pub apply_id: ApplyId,
    /// One per resource: for example the `commit` that was made.
    pub resources: Vec<Option<AppliedResult>>,
}

//! `plan.delete`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PlanReference, PlanSummary};
use crate::request::{Request, RequestKind};

/// Deletes a finished plan. Its journal is kept.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanDelete {
    pub plan: PlanReference,
}

impl Request for PlanDelete {
    type Answer = DeletedPlan;
    const NAME: &'static str = "plan.delete";
    const KIND: RequestKind = RequestKind::Write;
}

/// A plan as it was before it was deleted.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DeletedPlan {
    #[serde(flatten)]
    pub plan: PlanSummary,
    /// Always `true`.
    pub deleted: bool,
}

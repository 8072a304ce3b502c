//! `plan.find`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PlanReference, PlanSummary};
use crate::request::{Request, RequestKind};

/// Returns the plan that a reference names, to ask the user about exactly this plan.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanFind {
    pub plan: PlanReference,
}

impl Request for PlanFind {
    type Answer = PlanSummary;
    const NAME: &'static str = "plan.find";
    const KIND: RequestKind = RequestKind::Read;
}

//! The answer of running a plan.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::apply::AppliedPlan;
use super::execute::ExecutedPlan;
use super::{PlanCost, PlanSummary};

/// The state that a plan reached.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum DriveAnswer {
    Applied(Box<AppliedPlan>),
    Executed(Box<ExecutedPlan>),
}

impl DriveAnswer {
    pub fn plan(&self) -> &PlanSummary {
        match self {
            Self::Applied(applied) => &applied.plan,
            Self::Executed(executed) => &executed.plan,
        }
    }

    pub fn cost(&self) -> PlanCost {
        match self {
            Self::Applied(applied) => applied.cost,
            Self::Executed(executed) => executed.cost,
        }
    }
}

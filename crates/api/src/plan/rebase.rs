//! `plan.rebase`

use cleveragents_domain::{NamespacedName, ResourceType, ValidationSummary};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PlanConflict, PlanReference, PlanSummary};
use crate::request::{Request, RequestKind};

/// Moves a plan's result onto the current state of its targets, or queues the plan to run again
/// there. A stopped apply is aborted first.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanRebase {
    pub plan: PlanReference,
}

impl Request for PlanRebase {
    type Answer = RebasedPlan;
    const NAME: &'static str = "plan.rebase";
    const KIND: RequestKind = RequestKind::Write;
}

/// A plan and the new bases of its sandboxes.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RebasedPlan {
    #[serde(flatten)]
    pub plan: PlanSummary,
    pub resources: Vec<RebasedPlanResource>,
    pub validations: Option<ValidationSummary>,
    pub conflicts: Vec<PlanConflict>,
}

/// A resource with the old and new base of its sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RebasedPlanResource {
    pub resource: NamespacedName,
    pub resource_type: ResourceType,
    /// A commit, or the tree of a folder. `None` before the first commit.
    pub from: Option<String>,
    pub to: Option<String>,
}

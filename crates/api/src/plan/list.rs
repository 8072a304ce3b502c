//! `plan.list`

use std::path::PathBuf;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{NamespacedName, Phase, PlanState, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PlanSummary;
use crate::request::{Request, RequestKind};

/// Lists plans, newest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PlanList {
    pub phase: Option<Phase>,
    pub state: Option<PlanState>,
    pub project: Option<NamespacedName>,
    /// Only plans on the projects of this folder, if it is inside a resource of any.
    pub folder: Option<PathBuf>,
    pub action: Option<NamespacedName>,
    pub limit: Option<u32>,
    /// Only plans whose name, description or project matches this regular expression, ignoring
    /// case.
    pub regex: Option<String>,
}

impl Request for PlanList {
    type Answer = PlanPage;
    const NAME: &'static str = "plan.list";
    const KIND: RequestKind = RequestKind::Read;
}

/// The plans that match.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanPage {
    pub plans: Vec<ListedPlan>,
    pub filters: PlanFilters,
    pub summary: PlanCounts,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ListedPlan {
    #[serde(flatten)]
    pub plan: PlanSummary,
    /// The same as `plan_id`.
    pub id: PlanId,
    /// The time since its creation, until now or until it was finished, such as `1m 09s`.
    pub elapsed: String,
    /// The task in words.
    pub description: String,
    pub created_at: Timestamp,
}

/// The filters of a list, as they were given.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanFilters {
    pub phase: Option<Phase>,
    pub state: Option<PlanState>,
    pub project: Option<NamespacedName>,
    pub action: Option<NamespacedName>,
    pub pattern: Option<String>,
    /// The projects of the folder that limits the list; `null` if none does.
    pub folder_projects: Option<Vec<NamespacedName>>,
}

/// Counts over all plans that match, listed or not.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanCounts {
    pub total: u64,
    pub processing: u64,
    pub completed: u64,
    pub errored: u64,
    pub cancelled: u64,
    pub queued: u64,
    pub constrained: u64,
    pub unapplied: u64,
}

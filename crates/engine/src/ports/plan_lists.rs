//! Paged lists of plans, newest first.

use std::collections::BTreeMap;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{NamespacedName, Phase, Plan, PlanState, Timestamp};

use super::Result;

/// Selects plans; a field that is `None` matches every plan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlanFilter {
    pub phase: Option<Phase>,
    pub state: Option<PlanState>,
    pub project: Option<NamespacedName>,
    pub action: Option<NamespacedName>,
    /// Maximum number of plans; no limit if `None`.
    pub limit: Option<u32>,
    /// Only plans older than this: the end of the previous page.
    pub before: Option<PlanCursor>,
}

/// A plan's position in the order of lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanCursor {
    pub created_at: Timestamp,
    pub plan_id: PlanId,
}

impl From<&Plan> for PlanCursor {
    fn from(plan: &Plan) -> Self {
        Self {
            created_at: plan.timestamps.created_at,
            plan_id: plan.identity.plan_id,
        }
    }
}

/// A page of a list, with the total count.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanPage {
    pub plans: Vec<Plan>,
    /// Number of all matching plans, on all pages.
    pub total: u64,
    /// The same by state; states without plans are left out.
    pub by_state: BTreeMap<PlanState, u64>,
}

pub trait PlanLists {
    /// Returns all plans, newest first.
    fn plans(&mut self) -> Result<Vec<Plan>>;

    /// Returns the matching plans, newest first. The counts cover all pages.
    fn list_plans(&mut self, filter: &PlanFilter) -> Result<PlanPage>;
}

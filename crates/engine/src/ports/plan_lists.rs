//! Lists of plans, newest first, as long as a screen wants them.

use std::collections::BTreeMap;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{NamespacedName, Phase, Plan, PlanState, Timestamp};

use super::Result;

/// Which plans to list; what is `None` does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlanFilter {
    pub phase: Option<Phase>,
    pub state: Option<PlanState>,
    pub project: Option<NamespacedName>,
    pub action: Option<NamespacedName>,
    /// The most plans to list; all of them if `None`.
    pub limit: Option<u32>,
    /// Only older ones than this: the end of the page before.
    pub before: Option<PlanCursor>,
}

/// A plan's place in the order of lists.
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

/// A page of a list, and how many there are in all.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanPage {
    pub plans: Vec<Plan>,
    /// All that match, on this page and on others.
    pub total: u64,
    /// The same by state; a state that nobody is in is left out.
    pub by_state: BTreeMap<PlanState, u64>,
}

pub trait PlanLists {
    /// All plans, newest first.
    fn plans(&mut self) -> Result<Vec<Plan>>;

    /// The plans that match, newest first; how many match is counted over all pages.
    fn list_plans(&mut self, filter: &PlanFilter) -> Result<PlanPage>;
}

//! Plans as versioned rows, with their strategies and errors. An update names the version it read;
//! if that is no longer the newest, it fails with `Conflict` and never overwrites (law 1).
//!
//! Lock order: the plan before its stream. A transaction that calls [`Plans::plan_for_update`]
//! first and appends last cannot deadlock.

use std::collections::BTreeMap;

use cleveragents_domain::id::{IdFragment, PlanId};
use cleveragents_domain::strategy::StrategyRecord;
use cleveragents_domain::{ErrorRecord, NamespacedName, Phase, Plan, PlanState, Timestamp};

use super::Result;

/// Selects plans; a field that is `None` or empty matches every plan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlanFilter {
    pub phase: Option<Phase>,
    pub state: Option<PlanState>,
    /// Plans on any of these projects; on any at all if there are none.
    pub projects: Vec<NamespacedName>,
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

pub trait Plans {
    /// Stores a new plan and its projects. Fails with `Taken`, which names the holder, if the name
    /// is taken.
    fn insert_plan(&mut self, plan: &Plan) -> Result<()>;

    fn plan(&mut self, id: PlanId) -> Result<Plan>;

    /// Returns the plan and locks it against changes and deletion until the transaction ends.
    fn plan_for_update(&mut self, id: PlanId) -> Result<Plan>;

    /// Returns the plan whose id or shown characters start or end with `fragment`. Fails with
    /// `Ambiguous` if several match.
    fn find_plan(&mut self, fragment: &IdFragment) -> Result<Plan>;

    /// Updates the row if `plan.version` is the newest; returns the next version.
    fn update_plan(&mut self, plan: &Plan) -> Result<i64>;

    /// Deletes the plan, if `plan.version` is the newest, with its decisions, corrections, errors,
    /// messages, invariants, attachments and the blobs held under its id. Its journal stays.
    fn delete_plan(&mut self, plan: &Plan) -> Result<()>;

    /// Returns all plans, newest first.
    fn plans(&mut self) -> Result<Vec<Plan>>;

    /// Returns the matching plans, newest first. The counts cover all pages.
    fn list_plans(&mut self, filter: &PlanFilter) -> Result<PlanPage>;

    /// Stores a strategy of an existing plan and assigns its number.
    fn insert_strategy(&mut self, strategy: &StrategyRecord) -> Result<i64>;

    /// Returns the newest strategy of the plan.
    fn newest_strategy(&mut self, plan: PlanId) -> Result<Option<StrategyRecord>>;

    /// Approves the strategy of this number if it has this hash, else fails with `Refused`. The
    /// first approval is kept.
    fn approve_strategy(&mut self, strategy: &StrategyRecord) -> Result<()>;

    /// Records an error of an existing plan and returns the stored record. A new error gets the
    /// next sequence number. An identical one is counted and updates the attempt, cause and time.
    fn record_error(&mut self, error: &ErrorRecord) -> Result<ErrorRecord>;

    /// Returns up to `limit` errors of the plan after the sequence number `after`, in the order in
    /// which they first happened.
    fn errors_of(&mut self, plan: PlanId, after: i64, limit: u32) -> Result<Vec<ErrorRecord>>;
}

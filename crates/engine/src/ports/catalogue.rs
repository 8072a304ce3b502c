//! Actions and plans as versioned rows. An update names the version it read; if that is no longer
//! the newest, it fails with `Conflict` and never overwrites (law 1).
//!
//! Lock order: the plan before its stream. A transaction that calls [`Plans::plan_for_update`]
//! first and appends last cannot deadlock.

use std::collections::BTreeMap;

use cleveragents_domain::id::{ActionId, IdFragment, PlanId};
use cleveragents_domain::{Action, NamespacedName, Plan};

use super::Result;

pub trait Actions {
    /// Registers a new action. Fails with `Taken`, which names the holder, if the name is taken.
    fn insert_action(&mut self, action: &Action) -> Result<()>;

    fn action(&mut self, name: &NamespacedName) -> Result<Action>;

    /// Updates the row if `action.version` is the newest; returns the next version.
    fn update_action(&mut self, action: &Action) -> Result<i64>;

    /// Returns all actions, newest first.
    fn actions(&mut self) -> Result<Vec<Action>>;

    /// Counts one use of exactly this version. Fails with `Archived` for an archived action, with
    /// `Taken`, which names the plan, for a single-use action that was used before, and with
    /// `Conflict` for a changed action.
    fn use_action(&mut self, action: &Action) -> Result<()>;

    /// Claims the only use of a single-use, unregistered action, identified by its name and the
    /// hash of its content. One claim wins, permanently; the others fail with `Taken`, which names
    /// the plan.
    fn use_unregistered_action(
        &mut self,
        name: &NamespacedName,
        content_hash: &str,
        plan: PlanId,
    ) -> Result<()>;

    /// Returns how often each action was used, including by plans deleted since.
    fn action_uses(&mut self) -> Result<BTreeMap<ActionId, u64>>;
}

pub trait Plans {
    /// Stores a new plan and its projects. Fails with `Taken`, which names the holder, if the name
    /// is taken.
    fn insert_plan(&mut self, plan: &Plan) -> Result<()>;

    fn plan(&mut self, id: PlanId) -> Result<Plan>;

    /// Returns the plan and locks it against changes and deletion until the transaction ends.
    fn plan_for_update(&mut self, id: PlanId) -> Result<Plan>;

    /// Returns the plan whose id starts or ends with `fragment`. Fails with `Ambiguous` if several
    /// match.
    fn find_plan(&mut self, fragment: &IdFragment) -> Result<Plan>;

    /// Updates the row if `plan.version` is the newest; returns the next version.
    fn update_plan(&mut self, plan: &Plan) -> Result<i64>;

    /// Deletes the plan, if `plan.version` is the newest, with its decisions, corrections, errors,
    /// messages, invariants, attachments and the blobs held under its id. Its journal stays.
    fn delete_plan(&mut self, plan: &Plan) -> Result<()>;
}

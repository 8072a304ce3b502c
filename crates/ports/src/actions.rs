//! Actions as versioned rows. An update names the version it read; if that is no longer the newest,
//! it fails with `Conflict` and never overwrites (law 1).

use std::collections::BTreeMap;

use cleveragents_domain::id::{ActionId, PlanId};
use cleveragents_domain::{Action, NamespacedName};

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

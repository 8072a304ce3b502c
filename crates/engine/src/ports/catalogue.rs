//! The catalogue: actions and plans as versioned rows. An update names the version it read; if
//! that is no longer the newest it is a `Conflict`, never an overwrite (law 1).
//!
//! Who locks more than one thing of a plan locks the plan before its stream: a write that asks
//! [`Plans::plan_for_update`] first and appends last never waits in a circle.

use std::collections::BTreeMap;

use cleveragents_domain::id::{ActionId, IdFragment, PlanId};
use cleveragents_domain::{Action, NamespacedName, Plan};

use super::Result;

pub trait Actions {
    /// Registers a new action; a taken name is `Taken`, naming who has it.
    fn insert_action(&mut self, action: &Action) -> Result<()>;

    fn action(&mut self, name: &NamespacedName) -> Result<Action>;

    /// Replaces the row if `action.version` is still the newest; answers with the next version.
    fn update_action(&mut self, action: &Action) -> Result<i64>;

    /// All actions, newest first.
    fn actions(&mut self) -> Result<Vec<Action>>;

    /// Counts one use of exactly this version. An archived action is `Archived`; a single-use one
    /// that was used before is `Taken`, naming the plan; a changed one is a `Conflict`.
    fn use_action(&mut self, action: &Action) -> Result<()>;

    /// Claims the one use of a single-use action that is not registered but given, by its name and
    /// the hash of its content. Of any number who claim it one has it, for ever; the others are
    /// told `Taken`, naming the plan.
    fn use_unregistered_action(
        &mut self,
        name: &NamespacedName,
        content_hash: &str,
        plan: PlanId,
    ) -> Result<()>;

    /// How often each action was used, plans deleted since included.
    fn action_uses(&mut self) -> Result<BTreeMap<ActionId, u64>>;
}

pub trait Plans {
    /// Stores a new plan and which projects it is on; a taken name is `Taken`, naming who has it.
    fn insert_plan(&mut self, plan: &Plan) -> Result<()>;

    fn plan(&mut self, id: PlanId) -> Result<Plan>;

    /// The plan, which nobody else can change or delete until this write ends.
    fn plan_for_update(&mut self, id: PlanId) -> Result<Plan>;

    /// The one plan whose id begins or ends with `fragment`; several are `Ambiguous`.
    fn find_plan(&mut self, fragment: &IdFragment) -> Result<Plan>;

    /// Replaces the row if `plan.version` is still the newest; answers with the next version.
    fn update_plan(&mut self, plan: &Plan) -> Result<i64>;

    /// Removes the plan, if `plan.version` is still the newest, with its decisions, corrections,
    /// errors, messages, invariants, attachments and the blobs held in its id's name. Its journal stays.
    fn delete_plan(&mut self, plan: &Plan) -> Result<()>;
}

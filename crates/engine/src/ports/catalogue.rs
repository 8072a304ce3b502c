//! The catalogue: actions and plans as versioned rows. An update names the version it read; if
//! that is no longer the newest it is a `Conflict`, never an overwrite (law 1).

use cleveragents_domain::id::{IdFragment, PlanId};
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
}

pub trait Plans {
    /// Stores a new plan; a taken name is `Taken`, naming who has it.
    fn insert_plan(&mut self, plan: &Plan) -> Result<()>;

    fn plan(&mut self, id: PlanId) -> Result<Plan>;

    /// The one plan whose id begins or ends with `fragment`; several are `Ambiguous`.
    fn find_plan(&mut self, fragment: &IdFragment) -> Result<Plan>;

    /// Replaces the row if `plan.version` is still the newest; answers with the next version.
    fn update_plan(&mut self, plan: &Plan) -> Result<i64>;

    /// All plans, newest first.
    fn plans(&mut self) -> Result<Vec<Plan>>;
}

//! Rules that plans must follow, by scope.

use cleveragents_domain::id::{IdFragment, InvariantId, PlanId};
use cleveragents_domain::{Invariant, NamespacedName};

use super::Result;

pub trait Invariants {
    /// Stores a rule. Fails with `Taken`, which names the rule, if the scope already has the same
    /// text. Fails with `NotFound` if the project or plan does not exist.
    fn insert_invariant(&mut self, invariant: &Invariant) -> Result<()>;

    /// Returns the rule whose id starts or ends with `fragment`. Fails with `Ambiguous` if several
    /// match.
    fn find_invariant(&mut self, fragment: &IdFragment) -> Result<Invariant>;

    /// Removes a rule and returns it. Of several concurrent callers one succeeds.
    fn remove_invariant(&mut self, id: InvariantId) -> Result<Invariant>;

    /// Returns all rules, oldest first.
    fn invariants(&mut self) -> Result<Vec<Invariant>>;

    /// Returns the rules of these scopes: global ones first, then those of the projects in the
    /// given order, of the action, and of the plan; each oldest first.
    fn invariants_for(
        &mut self,
        projects: &[NamespacedName],
        action: Option<&NamespacedName>,
        plan: Option<PlanId>,
    ) -> Result<Vec<Invariant>>;
}

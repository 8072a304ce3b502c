//! Rules that plans must keep, by scope.

use cleveragents_domain::id::{IdFragment, InvariantId, PlanId};
use cleveragents_domain::{Invariant, NamespacedName};

use super::Result;

pub trait Invariants {
    /// Stores a rule; the same text in the same scope is `Taken`, naming the rule. A project or
    /// plan that is not there is `NotFound`.
    fn insert_invariant(&mut self, invariant: &Invariant) -> Result<()>;

    /// The one rule whose id begins or ends with `fragment`; several are `Ambiguous`.
    fn find_invariant(&mut self, fragment: &IdFragment) -> Result<Invariant>;

    /// Takes a rule away and answers with it; of several who try, one has it.
    fn remove_invariant(&mut self, id: InvariantId) -> Result<Invariant>;

    /// All rules, oldest first.
    fn invariants(&mut self) -> Result<Vec<Invariant>>;

    /// The rules that speak of any of these: the global ones first, then those of the projects in
    /// the given order, of the action, of the plan; each oldest first.
    fn invariants_for(
        &mut self,
        projects: &[NamespacedName],
        action: Option<&NamespacedName>,
        plan: Option<PlanId>,
    ) -> Result<Vec<Invariant>>;
}

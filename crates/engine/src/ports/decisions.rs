//! Decisions of plans, the influences between them, and their corrections.

use cleveragents_domain::id::{DecisionId, IdFragment, PlanId};
use cleveragents_domain::{Correction, Decision, DecisionEdge};

use super::Result;

pub trait Decisions {
    /// Stores a decision of an existing plan and returns its sequence number. Its parent must be a
    /// decision of the plan. Sequence numbers have no gaps; concurrent inserts are serialised.
    fn insert_decision(&mut self, decision: &Decision) -> Result<i64>;

    /// Stores several decisions of one existing plan, all or none, and returns their sequence
    /// numbers, which are consecutive in the given order. A parent may be an earlier one in the
    /// list.
    fn insert_decisions(&mut self, plan: PlanId, decisions: &[Decision]) -> Result<Vec<i64>>;

    fn decision(&mut self, id: DecisionId) -> Result<Decision>;

    /// Returns the decision of any plan whose id starts or ends with `fragment`. Fails with
    /// `Ambiguous` if several match.
    fn find_decision(&mut self, fragment: &IdFragment) -> Result<Decision>;

    /// Returns the plan's decisions in order, including superseded ones.
    fn decisions_of(&mut self, plan: PlanId) -> Result<Vec<Decision>>;

    /// Records that one decision of the plan used the result of another. Idempotent.
    fn add_influence(&mut self, plan: PlanId, edge: DecisionEdge) -> Result<()>;

    /// Returns the influences within a plan.
    fn influences_of(&mut self, plan: PlanId) -> Result<Vec<DecisionEdge>>;

    /// Marks decisions of the plan as superseded and returns how many were not yet. Fails with
    /// `NotFound`, and marks none, if an id is not a decision of the plan.
    fn supersede(&mut self, plan: PlanId, decisions: &[DecisionId]) -> Result<u64>;

    /// Removes that mark, under the same rules, and returns how many had it.
    fn reinstate(&mut self, plan: PlanId, decisions: &[DecisionId]) -> Result<u64>;
}

pub trait Corrections {
    /// Stores a new correction of a decision of an existing plan.
    fn insert_correction(&mut self, correction: &Correction) -> Result<()>;

    /// Returns the correction whose id starts or ends with `fragment`. Fails with `Ambiguous` if
    /// several match.
    fn find_correction(&mut self, fragment: &IdFragment) -> Result<Correction>;

    /// Updates the row if `correction.version` is the newest; returns the next version.
    fn update_correction(&mut self, correction: &Correction) -> Result<i64>;

    /// Returns the plan's corrections, oldest first.
    fn corrections_of(&mut self, plan: PlanId) -> Result<Vec<Correction>>;
}

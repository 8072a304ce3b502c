//! Decisions of plans, what influenced what, and attempts to correct them.

use cleveragents_domain::id::{DecisionId, IdFragment, PlanId};
use cleveragents_domain::{Correction, Decision, DecisionEdge};

use super::Result;

pub trait Decisions {
    /// Stores a decision of an existing plan, its parent being one of the plan's decisions, and
    /// answers with its place. Places have no gaps; who inserts at the same time waits its turn.
    fn insert_decision(&mut self, decision: &Decision) -> Result<i64>;

    /// Stores many decisions of one existing plan at once and answers with their places, which
    /// follow each other in the order given. A parent may be one of those before. All are stored
    /// or, when one is refused, none.
    fn insert_decisions(&mut self, plan: PlanId, decisions: &[Decision]) -> Result<Vec<i64>>;

    fn decision(&mut self, id: DecisionId) -> Result<Decision>;

    /// The one decision of any plan whose id begins or ends with `fragment`; several are
    /// `Ambiguous`.
    fn find_decision(&mut self, fragment: &IdFragment) -> Result<Decision>;

    /// The plan's decisions in their order, superseded ones included.
    fn decisions_of(&mut self, plan: PlanId) -> Result<Vec<Decision>>;

    /// Says that one decision of the plan used what another produced; twice is once.
    fn add_influence(&mut self, plan: PlanId, edge: DecisionEdge) -> Result<()>;

    /// The influences within a plan.
    fn influences_of(&mut self, plan: PlanId) -> Result<Vec<DecisionEdge>>;

    /// Marks decisions of the plan as superseded and says how many were not yet. An id that is
    /// not among the plan's decisions is `NotFound`, and none is marked.
    fn supersede(&mut self, plan: PlanId, decisions: &[DecisionId]) -> Result<u64>;

    /// Takes that mark away again, under the same rules, and says how many had it.
    fn reinstate(&mut self, plan: PlanId, decisions: &[DecisionId]) -> Result<u64>;
}

pub trait Corrections {
    /// Stores a new correction of a decision of an existing plan.
    fn insert_correction(&mut self, correction: &Correction) -> Result<()>;

    /// The one correction whose id begins or ends with `fragment`; several are `Ambiguous`.
    fn find_correction(&mut self, fragment: &IdFragment) -> Result<Correction>;

    /// Replaces the row if `correction.version` is still the newest; answers with the next one.
    fn update_correction(&mut self, correction: &Correction) -> Result<i64>;

    /// The plan's corrections, oldest first.
    fn corrections_of(&mut self, plan: PlanId) -> Result<Vec<Correction>>;
}

//! Decisions of plans, the influences between them, their corrections, and the counts of outcomes
//! from which their confidence is computed.

use cleveragents_domain::id::{DecisionId, IdFragment, PlanId};
use cleveragents_domain::{Correction, Decision, DecisionEdge};
use serde::{Deserialize, Serialize};

use super::Result;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationOutcome {
    Success,
    Failure,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OutcomeCounts {
    pub successes: u64,
    pub failures: u64,
}

impl OutcomeCounts {
    /// Returns the share of successes; `None` before the first outcome.
    pub fn success_rate(self) -> Option<f64> {
        let all = self.successes.saturating_add(self.failures);
        #[expect(
            clippy::cast_precision_loss,
            reason = "a rate needs no more digits than a double has"
        )]
        (all > 0).then(|| self.successes as f64 / all as f64)
    }
}

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

    /// Stores a new correction of a decision of an existing plan.
    fn insert_correction(&mut self, correction: &Correction) -> Result<()>;

    /// Returns the correction whose id starts or ends with `fragment`. Fails with `Ambiguous` if
    /// several match.
    fn find_correction(&mut self, fragment: &IdFragment) -> Result<Correction>;

    /// Updates the row if `correction.version` is the newest; returns the next version.
    fn update_correction(&mut self, correction: &Correction) -> Result<i64>;

    /// Returns the plan's corrections, oldest first.
    fn corrections_of(&mut self, plan: PlanId) -> Result<Vec<Correction>>;

    /// Counts one outcome and returns the counts including it. The row of the operation is locked
    /// until the transaction ends. Lock order: plan, then this row, then the stream.
    fn count_outcome(
        &mut self,
        operation: &str,
        outcome: OperationOutcome,
    ) -> Result<OutcomeCounts>;

    /// Returns the counts so far; all zero for an unknown operation.
    fn outcome_counts(&mut self, operation: &str) -> Result<OutcomeCounts>;
}

//! The decisions of an owned plan that are in force.

use std::sync::{Mutex, PoisonError};

use cleveragents_domain::id::{DecisionId, PlanId};
use cleveragents_domain::{Decision, Timestamp};

use crate::decisions::DecisionDraft;
use cleveragents_ports::{StoreError, Transaction};

/// Read once after the claim, then extended by what the owner records: only the owner makes decisions
/// of its actors (law 5). Guidance that a user gives meanwhile is not among them. Safe for
/// concurrent calls (law 6).
#[derive(Debug)]
pub(super) struct DecisionsInForce(Mutex<Vec<Decision>>);

impl DecisionsInForce {
    pub(super) fn load(
        tx: &mut dyn Transaction,
        plan: PlanId,
    ) -> std::result::Result<Self, StoreError> {
        let mut decisions = tx.decisions_of(plan)?;
        decisions.retain(|it| !it.is_superseded);
        Ok(Self(Mutex::new(decisions)))
    }

    pub(super) fn add(&self, decision: Decision) {
        let mut decisions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        decisions.push(decision);
    }

    /// Returns the newest decision with the parent, question and choice of this draft that was made
    /// since the given time.
    pub(super) fn find(
        &self,
        draft: &DecisionDraft,
        since: Option<Timestamp>,
    ) -> Option<DecisionId> {
        let decisions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |it: &&Decision| {
            it.parent_decision_id == Some(draft.parent)
                && it.question == draft.question
                && it.chosen_option == draft.chosen
                && Some(it.created_at) >= since
        };
        decisions.iter().rfind(is_same).map(|it| it.decision_id)
    }
}

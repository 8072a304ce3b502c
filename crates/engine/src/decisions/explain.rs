//! Explains a decision: why it was made, from what context, and what depends on it.

use std::collections::HashMap;

use cleveragents_domain::id::{DecisionId, IdFragment};
use cleveragents_domain::{Decision, Plan};

use super::DecisionService;
use super::context::{StoredContext, load_context};
use super::error::Result;
use super::impact::{Impact, PlanDecisions};
use cleveragents_ports::Transaction;

#[derive(Debug, Clone, PartialEq)]
pub struct DecisionExplanation {
    pub decision: Decision,
    pub plan: Plan,
    /// Number of decisions of the plan, including superseded ones. The decision's position is among
    /// them.
    pub decisions: usize,
    /// Its parent, the parent's parent, and so on to the root.
    pub path_to_root: Vec<Decision>,
    pub impact: Impact,
    pub context: StoredContext,
}

impl DecisionService {
    /// Returns the decision whose id starts or ends with `fragment`.
    pub async fn find(&self, fragment: IdFragment) -> Result<Decision> {
        self.store
            .read(move |tx| Ok(tx.find_decision(&fragment)?))
            .await
    }

    /// Explains the decision whose id starts or ends with `fragment`. Fails if its context is
    /// damaged, but not if it was released.
    pub async fn explain(&self, fragment: IdFragment) -> Result<DecisionExplanation> {
        self.store.read(move |tx| explain(tx, &fragment)).await
    }
}

fn explain(tx: &mut dyn Transaction, fragment: &IdFragment) -> Result<DecisionExplanation> {
    let decision = tx.find_decision(fragment)?;
    let plan = tx.plan(decision.plan_id)?;
    let plan_decisions = PlanDecisions::read(tx, decision.plan_id)?;
    let context = load_context(tx, &decision)?;
    Ok(DecisionExplanation {
        plan,
        decisions: plan_decisions.decisions.len(),
        path_to_root: path_to_root(&plan_decisions.decisions, &decision),
        impact: plan_decisions.impact(decision.decision_id),
        context,
        decision,
    })
}

fn path_to_root(decisions: &[Decision], of: &Decision) -> Vec<Decision> {
    let by_id: HashMap<DecisionId, &Decision> = decisions
        .iter()
        .map(|decision| (decision.decision_id, decision))
        .collect();
    let parent_of = |decision: &Decision| by_id.get(&decision.parent_decision_id?).copied();
    let mut path = Vec::new();
    let mut next = parent_of(of);
    while let Some(decision) = next {
        path.push(decision.clone());
        next = parent_of(decision);
    }
    path
}

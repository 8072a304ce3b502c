//! A decision, why it was made, from what, and what hangs on it.

use std::collections::HashMap;

use cleveragents_domain::id::{DecisionId, IdFragment};
use cleveragents_domain::{Decision, Plan};

use super::DecisionService;
use super::context::{StoredContext, load};
use super::error::Result;
use super::impact::{Family, Impact};
use crate::ports::Unit;

#[derive(Debug, Clone, PartialEq)]
pub struct Explained {
    pub decision: Decision,
    pub plan: Plan,
    /// How many decisions the plan has, superseded ones included; the decision's place is among
    /// them.
    pub decisions: usize,
    /// What led to it: its parent, that one's, and so on to the root.
    pub path_to_root: Vec<Decision>,
    pub impact: Impact,
    pub context: StoredContext,
}

impl DecisionService {
    /// The one decision whose id begins or ends with `fragment`.
    pub async fn find(&self, fragment: IdFragment) -> Result<Decision> {
        self.store
            .read(move |unit| Ok(unit.find_decision(&fragment)?))
            .await
    }

    /// Explains the one decision whose id begins or ends with `fragment`. A damaged context is an
    /// error; one that nobody keeps is not.
    pub async fn explain(&self, fragment: IdFragment) -> Result<Explained> {
        self.store.read(move |unit| explain(unit, &fragment)).await
    }
}

fn explain(unit: &mut dyn Unit, fragment: &IdFragment) -> Result<Explained> {
    let decision = unit.find_decision(fragment)?;
    let plan = unit.plan(decision.plan_id)?;
    let family = Family::read(unit, decision.plan_id)?;
    let context = load(unit, &decision)?;
    Ok(Explained {
        plan,
        decisions: family.decisions.len(),
        path_to_root: path_to_root(&family.decisions, &decision),
        impact: family.impact(decision.decision_id),
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

//! Records decisions and their influences, for the owner of the plan's run.

use cleveragents_domain::event::payloads::{DecisionCreated, DecisionInfluenced};
use cleveragents_domain::id::{DecisionId, PlanId};
use cleveragents_domain::{
    Confidence, Decision, DecisionEdge, DecisionType, NewDecision, Plan, PlanState, StreamId,
    Timestamp,
};

use super::DecisionService;
use super::context::{DecisionContext, StagedContext};
use super::error::{DecisionFailure, Result};
use crate::journal::new_event;
use crate::runs::RunLease;
use cleveragents_ports::{Entity, StoreError, Transaction};

/// A decision made by an actor; plan and phase are taken from the run. The root decision is created
/// with the plan, so a draft always has a parent.
#[derive(Debug, Clone)]
pub struct DecisionDraft {
    pub parent: DecisionId,
    pub decision_type: DecisionType,
    pub question: String,
    pub chosen: String,
    pub alternatives: Vec<String>,
    pub rationale: String,
    pub confidence: Option<Confidence>,
    /// The actor's own words, unedited.
    pub reasoning: Option<String>,
    pub context: DecisionContext,
    /// The decisions whose results this one used.
    pub influences: Vec<DecisionId>,
}

/// Inputs of one write, created before it because the write may run again.
struct PendingDecision {
    draft: DecisionDraft,
    context: StagedContext,
    id: DecisionId,
    plan: PlanId,
    actor: String,
}

impl DecisionService {
    /// Records a decision with its context and its influences, in one commit.
    pub async fn record(&self, run: &RunLease, draft: DecisionDraft) -> Result<Decision> {
        let mut draft = draft;
        let context = std::mem::take(&mut draft.context);
        let pending = PendingDecision {
            draft,
            context: StagedContext::stage(&self.store, context).await?,
            id: DecisionId::new(self.ids.next()),
            plan: run.lease().plan,
            actor: run.lease().owner.to_string(),
        };
        run.write(self.operation("decision.record"), move |tx| {
            write_decision(tx, &pending)
        })
        .await
    }

    /// Records that one decision of the run's plan used the result of another. Cycles are allowed:
    /// decisions may be revised in the light of their consequences.
    pub async fn record_influence(&self, run: &RunLease, edge: DecisionEdge) -> Result<()> {
        if edge.from == edge.to {
            return Err(DecisionFailure::SelfInfluence { decision: edge.to });
        }
        let plan = run.lease().plan;
        let actor = run.lease().owner.to_string();
        run.write(self.operation("decision.influence"), move |tx| {
            processing_plan(tx, plan)?;
            for decision in [edge.from, edge.to] {
                check_active(tx, plan, decision)?;
            }
            tx.add_influence(plan, edge)?;
            let influenced = new_event(&actor, &DecisionInfluenced(edge))?;
            tx.append(StreamId::Plan(plan), &[influenced])?;
            Ok(())
        })
        .await
    }
}

fn write_decision(tx: &mut dyn Transaction, pending: &PendingDecision) -> Result<Decision> {
    let PendingDecision {
        draft, id, plan, ..
    } = pending;
    let held = processing_plan(tx, *plan)?;
    let mut decision = build_decision(&held, pending, tx.now()?);
    decision.validate(held.position.phase())?;
    for other in draft.influences.iter().chain([&draft.parent]) {
        check_active(tx, *plan, *other)?;
    }
    pending.context.keep(tx, &plan.to_string())?;
    decision.sequence_number = tx.insert_decision(&decision)?;
    for from in &draft.influences {
        let edge = DecisionEdge {
            from: *from,
            to: *id,
        };
        tx.add_influence(*plan, edge)?;
    }
    let created = new_event(&pending.actor, &DecisionCreated(decision.clone()))?;
    tx.append(StreamId::Plan(*plan), &[created])?;
    Ok(decision)
}

/// Returns the plan. Fails if no phase is in progress: an owner that was believed dead must not add
/// to a plan that was corrected meanwhile.
fn processing_plan(tx: &mut dyn Transaction, plan: PlanId) -> Result<Plan> {
    let held = tx.plan_for_update(plan)?;
    let at = held.position;
    match at.state() {
        PlanState::Processing => Ok(held),
        _ => Err(DecisionFailure::NotProcessing { plan, at }),
    }
}

/// Fails if the decision does not belong to the plan or is superseded.
fn check_active(tx: &mut dyn Transaction, plan: PlanId, decision: DecisionId) -> Result<()> {
    let missing = || StoreError::NotFound {
        entity: Entity::DecisionOfPlan,
        id: decision.to_string(),
    };
    let found = match tx.decision(decision) {
        Err(StoreError::NotFound { .. }) => return Err(missing().into()),
        other => other?,
    };
    if found.plan_id != plan {
        return Err(missing().into());
    }
    if found.is_superseded {
        Err(DecisionFailure::Superseded { decision })
    } else {
        Ok(())
    }
}

fn build_decision(plan: &Plan, pending: &PendingDecision, at: Timestamp) -> Decision {
    let draft = &pending.draft;
    let new = NewDecision {
        plan_id: pending.plan,
        parent: Some(draft.parent),
        decision_type: draft.decision_type,
        phase: plan.position.phase(),
        question: draft.question.clone(),
        chosen: draft.chosen.clone(),
        rationale: draft.rationale.clone(),
    };
    Decision {
        alternatives_considered: draft.alternatives.clone(),
        confidence_score: draft.confidence,
        actor_reasoning: draft.reasoning.clone(),
        context_snapshot: pending.context.snapshot.clone(),
        ..Decision::new(new, pending.id, at)
    }
}

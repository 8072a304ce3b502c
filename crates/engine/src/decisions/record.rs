//! Recording decisions and what influenced them, by the owner of the plan's run.

use cleveragents_domain::id::{DecisionId, PlanId};
use cleveragents_domain::{
    Confidence, Decision, DecisionEdge, DecisionType, EventKind, NewDecision, Plan, State,
    StreamId, Timestamp,
};

use super::DecisionService;
use super::context::{Context, StagedContext};
use super::error::{DecisionFailure, Result};
use crate::lifecycle::event;
use crate::ports::{StoreError, Unit};
use crate::runs::RunLease;

/// A decision as its actor made it; plan and phase are those of the run. The root is made with
/// its plan, so what is recorded here always has a parent.
#[derive(Debug, Clone)]
pub struct Choice {
    pub parent: DecisionId,
    pub decision_type: DecisionType,
    pub question: String,
    pub chosen: String,
    pub alternatives: Vec<String>,
    pub rationale: String,
    pub confidence: Option<Confidence>,
    /// The actor's own words, unedited.
    pub reasoning: Option<String>,
    pub context: Context,
    /// The decisions whose outcome this one used.
    pub influences: Vec<DecisionId>,
}

/// What one write needs, made before it because it may run again.
struct Writing {
    choice: Choice,
    context: StagedContext,
    id: DecisionId,
    plan: PlanId,
    actor: String,
}

impl DecisionService {
    /// Records a decision with what its actor knew and what influenced it, in one commit.
    pub async fn record(&self, run: &RunLease, choice: Choice) -> Result<Decision> {
        let mut choice = choice;
        let context = std::mem::take(&mut choice.context);
        let writing = Writing {
            choice,
            context: StagedContext::stage(&self.store, context).await?,
            id: DecisionId::new(self.ids.next()),
            plan: run.lease().plan,
            actor: run.lease().owner.to_string(),
        };
        run.write(self.operation("decision.record"), move |unit| {
            write(unit, &writing)
        })
        .await
    }

    /// Says that one decision of the run's plan used the outcome of another. Circles are legal:
    /// decisions may be revised in the light of what they led to.
    pub async fn influence(&self, run: &RunLease, edge: DecisionEdge) -> Result<()> {
        if edge.from == edge.to {
            return Err(DecisionFailure::OwnInfluence { decision: edge.to });
        }
        let plan = run.lease().plan;
        let actor = run.lease().owner.to_string();
        run.write(self.operation("decision.influence"), move |unit| {
            worked_on(unit, plan)?;
            for decision in [edge.from, edge.to] {
                standing(unit, plan, decision)?;
            }
            unit.add_influence(plan, edge)?;
            let influenced = event(EventKind::DecisionInfluenced, &actor, &edge)?;
            unit.append(StreamId::Plan(plan), &[influenced])?;
            Ok(())
        })
        .await
    }
}

fn write(unit: &mut dyn Unit, writing: &Writing) -> Result<Decision> {
    let Writing {
        choice, id, plan, ..
    } = writing;
    let held = worked_on(unit, *plan)?;
    let mut decision = decided(&held, writing, unit.now()?);
    decision.validate(held.position.phase())?;
    for other in choice.influences.iter().chain([&choice.parent]) {
        standing(unit, *plan, *other)?;
    }
    writing.context.keep(unit, &plan.to_string())?;
    decision.sequence_number = unit.insert_decision(&decision)?;
    for from in &choice.influences {
        let edge = DecisionEdge {
            from: *from,
            to: *id,
        };
        unit.add_influence(*plan, edge)?;
    }
    let created = event(EventKind::DecisionCreated, &writing.actor, &decision)?;
    unit.append(StreamId::Plan(*plan), &[created])?;
    Ok(decision)
}

/// The plan, which must be in the middle of a phase: an owner that was thought dead and whose plan
/// was corrected meanwhile has nothing to add to it.
fn worked_on(unit: &mut dyn Unit, plan: PlanId) -> Result<Plan> {
    let held = unit.plan_for_update(plan)?;
    let at = held.position;
    match at.state() {
        State::Processing => Ok(held),
        _ => Err(DecisionFailure::NotWorkedOn { plan, at }),
    }
}

/// Refuses a decision that is not one of the plan's, or no longer counts.
fn standing(unit: &mut dyn Unit, plan: PlanId, decision: DecisionId) -> Result<()> {
    let missing = || StoreError::NotFound {
        what: "decision of this plan",
        id: decision.to_string(),
    };
    let found = match unit.decision(decision) {
        Err(StoreError::NotFound { .. }) => return Err(missing().into()),
        other => other?,
    };
    if found.plan_id != plan {
        return Err(missing().into());
    }
    match found.is_superseded {
        true => Err(DecisionFailure::Superseded { decision }),
        false => Ok(()),
    }
}

fn decided(plan: &Plan, writing: &Writing, at: Timestamp) -> Decision {
    let choice = &writing.choice;
    let new = NewDecision {
        plan_id: writing.plan,
        parent: Some(choice.parent),
        decision_type: choice.decision_type,
        phase: plan.position.phase(),
        question: choice.question.clone(),
        chosen: choice.chosen.clone(),
        rationale: choice.rationale.clone(),
    };
    Decision {
        alternatives_considered: choice.alternatives.clone(),
        confidence_score: choice.confidence,
        actor_reasoning: choice.reasoning.clone(),
        context_snapshot: writing.context.snapshot.clone(),
        ..Decision::new(new, writing.id, at)
    }
}

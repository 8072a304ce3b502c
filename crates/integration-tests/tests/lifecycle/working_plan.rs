//! A plan whose owner has made decisions, for tests about decisions.

use cleveragents_domain::id::{DecisionId, PlanId};
use cleveragents_domain::{
    Confidence, Correction, CorrectionMode, Decision, DecisionType, Plan, StreamId,
};
use cleveragents_engine::decisions::{
    ContextItem, CorrectionRequest, DecisionContext, DecisionDraft,
};
use cleveragents_engine::runs::RunLease;
use cleveragents_integration_tests::plan_driver::{advance_to_execute, start_phase};
use cleveragents_integration_tests::store_access::{events, read, release_run};

use super::fixture::LifecycleFixture;

/// A running plan and its owner.
#[derive(Debug)]
pub(crate) struct WorkingPlan {
    pub(crate) plan: PlanId,
    pub(crate) root: DecisionId,
    pub(crate) run: RunLease,
}

impl WorkingPlan {
    /// Creates a plan at `strategize/processing`.
    pub(crate) async fn start(fixture: &LifecycleFixture) -> Self {
        let plan = fixture.new_plan().await;
        Self::resume(fixture, plan.identity.plan_id).await
    }

    /// Claims a plan that was left at `strategize/queued`.
    pub(crate) async fn resume(fixture: &LifecycleFixture, id: PlanId) -> Self {
        let plan = fixture.plan(id).await;
        let run = fixture.claim(id).await;
        start_phase(&fixture.lifecycle, &run).await;
        Self {
            plan: id,
            root: plan.decision_root_id.unwrap(),
            run,
        }
    }

    /// Moves the plan to `execute/processing`.
    pub(crate) async fn execute(&self, fixture: &LifecycleFixture) {
        advance_to_execute(&fixture.lifecycle, &self.run).await;
    }

    pub(crate) async fn decide(
        &self,
        fixture: &LifecycleFixture,
        choice: DecisionDraft,
    ) -> Decision {
        fixture.decisions.record(&self.run, choice).await.unwrap()
    }

    /// Releases the run; the plan stays where it is.
    pub(crate) async fn release(self) -> PlanId {
        release_run(self.run).await;
        self.plan
    }
}

/// A choice between two options.
pub(crate) fn choice(
    parent: DecisionId,
    decision_type: DecisionType,
    chosen: &str,
) -> DecisionDraft {
    DecisionDraft {
        parent,
        decision_type,
        question: "Which way?".to_owned(),
        chosen: chosen.to_owned(),
        alternatives: vec!["the other way".to_owned()],
        rationale: "It is shorter.".to_owned(),
        confidence: Some(Confidence::new(0.8).unwrap()),
        reasoning: Some("Let me see …".to_owned()),
        context: DecisionContext {
            items: vec![ContextItem {
                name: "src/cart.rs".to_owned(),
                text: "fn cart() {}\n\0\"ü\"".to_owned(),
            }],
            resources: vec!["local/folder".to_owned()],
            actor_state: Some(vec![0, 159, 146, 150]),
            request: None,
        },
        influences: Vec::new(),
    }
}

pub(crate) fn strategy(parent: DecisionId, chosen: &str) -> DecisionDraft {
    choice(parent, DecisionType::StrategyChoice, chosen)
}

pub(crate) fn implementation(parent: DecisionId, chosen: &str) -> DecisionDraft {
    choice(parent, DecisionType::ImplementationChoice, chosen)
}

pub(crate) fn correction(decision: DecisionId, mode: CorrectionMode) -> CorrectionRequest {
    CorrectionRequest {
        decision,
        mode,
        guidance: "go by the river".to_owned(),
        actor: "eva".to_owned(),
    }
}

pub(crate) async fn all_decisions(fixture: &LifecycleFixture, plan: PlanId) -> Vec<Decision> {
    read(&fixture.opened.store, move |tx| tx.decisions_of(plan)).await
}

/// A plan with decisions and without an owner.
#[derive(Debug)]
pub(crate) struct DecidedPlan {
    pub(crate) plan: PlanId,
    pub(crate) root: DecisionId,
    pub(crate) first: Decision,
    pub(crate) below: Decision,
    pub(crate) influenced: Decision,
    pub(crate) apart: Decision,
}

pub(crate) async fn create_decided_plan(fixture: &LifecycleFixture) -> DecidedPlan {
    let working_plan = WorkingPlan::start(fixture).await;
    let root = working_plan.root;
    let first = working_plan.decide(fixture, strategy(root, "first")).await;
    let below = strategy(first.decision_id, "below");
    let below = working_plan.decide(fixture, below).await;
    let mut influenced = strategy(root, "influenced");
    influenced.influences = vec![below.decision_id];
    let influenced = working_plan.decide(fixture, influenced).await;
    let apart = working_plan.decide(fixture, strategy(root, "apart")).await;
    DecidedPlan {
        plan: working_plan.release().await,
        root,
        first,
        below,
        influenced,
        apart,
    }
}

/// Everything a correction could have written.
pub(crate) async fn correction_state(
    fixture: &LifecycleFixture,
    plan: PlanId,
) -> (Plan, Vec<Decision>, Vec<Correction>, usize) {
    let message = events(&fixture.opened.store, StreamId::Plan(plan))
        .await
        .len();
    (
        fixture.plan(plan).await,
        all_decisions(fixture, plan).await,
        fixture.decisions.corrections(plan).await.unwrap(),
        message,
    )
}

pub(crate) fn superseded_ids(decisions: &[Decision]) -> Vec<DecisionId> {
    let given_up = decisions.iter().filter(|it| it.is_superseded);
    given_up.map(|it| it.decision_id).collect()
}

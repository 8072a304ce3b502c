//! A plan whose owner has decided something, for tests about decisions.

use cleveragents_domain::id::{DecisionId, PlanId};
use cleveragents_domain::{
    Confidence, Correction, CorrectionMode, Decision, DecisionType, Phase, Plan, StreamId,
};
use cleveragents_engine::decisions::{Choice, Context, ContextItem, CorrectRequest};
use cleveragents_engine::runs::RunLease;
use cleveragents_proof::verbs::{events, give_back, read};

use super::scene::{AllThere, Scene};

/// A plan at work, and who works on it.
#[derive(Debug)]
pub(crate) struct Thinking {
    pub(crate) plan: PlanId,
    pub(crate) root: DecisionId,
    pub(crate) run: RunLease,
}

impl Thinking {
    /// A plan at `strategize/processing`.
    pub(crate) async fn begin(scene: &Scene) -> Self {
        let plan = scene.new_plan().await;
        Self::go_on(scene, plan.identity.plan_id).await
    }

    /// Takes up a plan that was left at `strategize/queued`.
    pub(crate) async fn go_on(scene: &Scene, id: PlanId) -> Self {
        let plan = scene.plan(id).await;
        let run = scene.claim(id).await;
        scene.lifecycle.start(&run, &AllThere).await.unwrap();
        Self {
            plan: id,
            root: plan.decision_root_id.unwrap(),
            run,
        }
    }

    /// Takes the plan on to `execute/processing`.
    pub(crate) async fn execute(&self, scene: &Scene) {
        let lifecycle = &scene.lifecycle;
        lifecycle.complete(&self.run).await.unwrap();
        let advanced = lifecycle.advance_as_owner(&self.run, Phase::Execute);
        advanced.await.unwrap();
        lifecycle.start(&self.run, &AllThere).await.unwrap();
    }

    pub(crate) async fn decide(&self, scene: &Scene, choice: Choice) -> Decision {
        scene.decisions.record(&self.run, choice).await.unwrap()
    }

    /// Gives the run back; the plan stays where it is.
    pub(crate) async fn leave(self) -> PlanId {
        give_back(self.run).await;
        self.plan
    }
}

/// A choice between two ways.
pub(crate) fn choice(parent: DecisionId, decision_type: DecisionType, chosen: &str) -> Choice {
    Choice {
        parent,
        decision_type,
        question: "Which way?".to_owned(),
        chosen: chosen.to_owned(),
        alternatives: vec!["the other way".to_owned()],
        rationale: "It is shorter.".to_owned(),
        confidence: Some(Confidence::new(0.8).unwrap()),
        reasoning: Some("Let me see …".to_owned()),
        context: Context {
            items: vec![ContextItem {
                name: "src/cart.rs".to_owned(),
                text: "fn cart() {}\n\0\"ü\"".to_owned(),
            }],
            resources: vec!["local/folder".to_owned()],
            actor_state: Some(vec![0, 159, 146, 150]),
        },
        influences: Vec::new(),
    }
}

pub(crate) fn strategy(parent: DecisionId, chosen: &str) -> Choice {
    choice(parent, DecisionType::StrategyChoice, chosen)
}

pub(crate) fn implementation(parent: DecisionId, chosen: &str) -> Choice {
    choice(parent, DecisionType::ImplementationChoice, chosen)
}

pub(crate) fn correction(decision: DecisionId, mode: CorrectionMode) -> CorrectRequest {
    CorrectRequest {
        decision,
        mode,
        guidance: "go by the river".to_owned(),
        actor: "eva".to_owned(),
    }
}

pub(crate) async fn all(scene: &Scene, plan: PlanId) -> Vec<Decision> {
    read(&scene.opened.store, move |unit| unit.decisions_of(plan)).await
}

/// A plan with decisions, which nobody runs.
#[derive(Debug)]
pub(crate) struct Decided {
    pub(crate) plan: PlanId,
    pub(crate) root: DecisionId,
    pub(crate) first: Decision,
    pub(crate) below: Decision,
    pub(crate) influenced: Decision,
    pub(crate) apart: Decision,
}

pub(crate) async fn decided(scene: &Scene) -> Decided {
    let thinking = Thinking::begin(scene).await;
    let root = thinking.root;
    let first = thinking.decide(scene, strategy(root, "first")).await;
    let below = strategy(first.decision_id, "below");
    let below = thinking.decide(scene, below).await;
    let mut influenced = strategy(root, "influenced");
    influenced.influences = vec![below.decision_id];
    let influenced = thinking.decide(scene, influenced).await;
    let apart = thinking.decide(scene, strategy(root, "apart")).await;
    Decided {
        plan: thinking.leave().await,
        root,
        first,
        below,
        influenced,
        apart,
    }
}

/// Everything a correction could have written.
pub(crate) async fn written(
    scene: &Scene,
    plan: PlanId,
) -> (Plan, Vec<Decision>, Vec<Correction>, usize) {
    let told = events(&scene.opened.store, StreamId::Plan(plan))
        .await
        .len();
    (
        scene.plan(plan).await,
        all(scene, plan).await,
        scene.decisions.corrections(plan).await.unwrap(),
        told,
    )
}

pub(crate) fn superseded(decisions: &[Decision]) -> Vec<DecisionId> {
    let given_up = decisions.iter().filter(|it| it.is_superseded);
    given_up.map(|it| it.decision_id).collect()
}

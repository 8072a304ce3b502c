//! Confidence: each factor comes from where it says, alone can decide, and no outcome is lost.

use std::sync::Arc;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{BuiltIn, Phase, Scope, ThresholdName};
use cleveragents_engine::confidence::{Assessment, EscalationDecision, FactorName, Risk};
use cleveragents_engine::lifecycle::phase_operation;
use cleveragents_engine::ports::{Outcome, OutcomeCounts};
use cleveragents_proof::lifecycle_samples::invariant;
use cleveragents_proof::verbs::{read, together, write};
use cleveragents_proof::{Backend, Place, block_on, contract};

use super::scene::{AllThere, Scene};
use super::thinking::Thinking;

contract! {
    nothing_known_is_neither_trusted_nor_hopeless,
    each_factor_alone_flips_the_gate_of_cautious,
    outcomes_of_many_callers_are_all_counted,
    a_phase_counts_once_when_it_ends,
    many_plans_that_end_at_once_are_all_counted,
}

const OPERATION: &str = "execute_command";

async fn assess(scene: &Scene, plan: PlanId, risk: Risk) -> Assessment {
    let assessed = scene.confidence.assess(plan, OPERATION, risk).await;
    assessed.unwrap()
}

#[track_caller]
fn value(assessment: &Assessment, name: FactorName) -> f64 {
    let found = assessment.factors.iter().find(|it| it.name == name);
    found.unwrap().value
}

fn nothing_known_is_neither_trusted_nor_hopeless(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        let plan = scene.new_plan().await.identity.plan_id;
        let known = assess(&scene, plan, Risk::default()).await;
        assert_eq!(value(&known, FactorName::PastSuccessRate), 0.5);
        assert_eq!(value(&known, FactorName::CodebaseFamiliarity), 0.0);
        assert_eq!(value(&known, FactorName::RiskAssessment), 0.0);
        // The sample brings two rules: one of its action and one of its own.
        assert_eq!(value(&known, FactorName::InvariantComplexity), 2.0 / 12.0);
        let sum: f64 = known.factors.iter().map(|it| it.contribution).sum();
        assert!((known.confidence.value() - sum).abs() < 1e-12);
        for (factor, source) in known.factors.iter().zip([
            "execute_command: 0 successes, 0 failures",
            "local/shop: 0 of 0 finished plans were applied",
            "0 files, 0 deletions, 0 commands",
            "2 rules hold",
        ]) {
            assert_eq!(factor.source, source);
            assert!(known.explanation.contains(source), "{}", known.explanation);
        }
    });
}

/// What is known when a test begins.
struct Known {
    applied: u32,
    cancelled: u32,
    failures: u32,
    rules: u32,
    risk: Risk,
}

const SURE: Known = Known {
    applied: 5,
    cancelled: 0,
    failures: 0,
    rules: 0,
    risk: Risk {
        files: 8,
        deletes: 0,
        commands: 0,
    },
};

fn each_factor_alone_flips_the_gate_of_cautious(backend: Backend) {
    let sure = decide(backend, &SURE);
    assert!(sure.proceed, "{}", sure.explanation);
    for (name, doubtful) in [
        (
            FactorName::PastSuccessRate,
            Known {
                failures: 18,
                ..SURE
            },
        ),
        (
            FactorName::CodebaseFamiliarity,
            Known {
                cancelled: 15,
                ..SURE
            },
        ),
        (
            FactorName::RiskAssessment,
            Known {
                risk: Risk {
                    files: 8,
                    deletes: 6,
                    commands: 8,
                },
                ..SURE
            },
        ),
        (FactorName::InvariantComplexity, Known { rules: 20, ..SURE }),
    ] {
        let decision = decide(backend, &doubtful);
        assert!(!decision.proceed, "{name:?}: {}", decision.explanation);
        for (factor, before) in decision.factors.iter().zip(&sure.factors) {
            let same = factor.value == before.value;
            assert_eq!(same, factor.name != name, "{factor} instead of {before}");
        }
    }
}

fn decide(backend: Backend, known: &Known) -> EscalationDecision {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        for _ in 0..known.applied {
            apply(&scene).await;
        }
        for _ in 0..known.cancelled {
            let plan = scene.new_plan().await.identity.plan_id;
            scene.lifecycle.cancel(plan, "no", "eva").await.unwrap();
        }
        let outcomes = [(18, Outcome::Success), (known.failures, Outcome::Failure)];
        for (times, outcome) in outcomes {
            for _ in 0..times {
                let counted = scene.confidence.record_outcome(OPERATION, outcome);
                counted.await.unwrap();
            }
        }
        for number in 0..known.rules {
            let rule = invariant(&format!("rule {number}"), Scope::Global, 0);
            write(&scene.opened.store, move |unit| {
                unit.insert_invariant(&rule)
            })
            .await;
        }
        let plan = scene.new_plan().await.identity.plan_id;
        let cautious = BuiltIn::Cautious.profile();
        let assessment = assess(&scene, plan, known.risk).await;
        assessment.gate(&cautious, ThresholdName::ExecuteCommand)
    })
}

async fn apply(scene: &Scene) {
    let thinking = Thinking::begin(scene).await;
    thinking.execute(scene).await;
    let lifecycle = &scene.lifecycle;
    lifecycle.complete(&thinking.run).await.unwrap();
    let advanced = lifecycle.advance_as_owner(&thinking.run, Phase::Apply);
    advanced.await.unwrap();
    lifecycle.start(&thinking.run, &AllThere).await.unwrap();
    lifecycle.decide(&thinking.run).await.unwrap();
    lifecycle.applied(&thinking.run).await.unwrap();
    thinking.leave().await;
}

fn outcomes_of_many_callers_are_all_counted(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Arc::new(Scene::furnished(&place).await);
        together(32, |caller| {
            let scene = Arc::clone(&scene);
            async move {
                for round in 0..5 {
                    let outcome = match (caller + round) % 4 {
                        0 => Outcome::Failure,
                        _ => Outcome::Success,
                    };
                    let counted = scene.confidence.record_outcome(OPERATION, outcome);
                    counted.await.unwrap();
                }
            }
        })
        .await;
        let plan = scene.new_plan().await.identity.plan_id;
        let known = assess(&scene, plan, Risk::default()).await;
        assert_eq!(value(&known, FactorName::PastSuccessRate), 121.0 / 162.0);
    });
}

async fn counts(scene: &Scene, phase: Phase) -> (u64, u64) {
    let counts: OutcomeCounts = read(&scene.opened.store, move |unit| {
        unit.outcome(phase_operation(phase))
    })
    .await;
    (counts.successes, counts.failures)
}

fn a_phase_counts_once_when_it_ends(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Scene::furnished(&place).await;
        apply(&scene).await;
        for phase in Phase::ALL.iter().copied() {
            assert_eq!(counts(&scene, phase).await, (1, 0), "{phase}");
        }
        let thinking = Thinking::begin(&scene).await;
        scene.lifecycle.fail(&thinking.run, "no net").await.unwrap();
        assert!(scene.lifecycle.fail(&thinking.run, "again").await.is_err());
        assert_eq!(counts(&scene, Phase::Strategize).await, (1, 1));
        assert_eq!(counts(&scene, Phase::Execute).await, (1, 0));
    });
}

/// All of them want the same count while each holds its own plan: nobody may wait in a circle.
fn many_plans_that_end_at_once_are_all_counted(backend: Backend) {
    let place = Place::new(backend);
    block_on(async {
        let scene = Arc::new(Scene::furnished(&place).await);
        let mut at_work = Vec::new();
        for _ in 0..32 {
            at_work.push(Arc::new(Thinking::begin(&scene).await));
        }
        let ended = together(at_work.len(), |number| {
            let (scene, thinking) = (Arc::clone(&scene), Arc::clone(&at_work[number]));
            async move {
                match number % 4 {
                    0 => scene.lifecycle.fail(&thinking.run, "no net").await,
                    _ => scene.lifecycle.complete(&thinking.run).await,
                }
            }
        })
        .await;
        for answer in ended {
            answer.unwrap();
        }
        assert_eq!(counts(&scene, Phase::Strategize).await, (24, 8));
    });
}

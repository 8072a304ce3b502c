//! Confidence: each factor comes from its documented source and alone can decide; no outcome is
//! lost.

use std::sync::Arc;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{BuiltInProfile, InvariantScope, Phase, ThresholdName};
use cleveragents_engine::confidence::{Assessment, EscalationDecision, FactorName, Risk};
use cleveragents_engine::lifecycle::phase_operation;
use cleveragents_integration_tests::lifecycle_samples::invariant;
use cleveragents_integration_tests::plan_driver::PassingProbe;
use cleveragents_integration_tests::store_access::{read, run_concurrently, write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::{OperationOutcome, OutcomeCounts};

use super::fixture::LifecycleFixture;
use super::working_plan::WorkingPlan;

contract! {
    no_history_gives_a_middle_confidence,
    each_factor_alone_flips_the_gate_of_cautious,
    outcomes_of_many_callers_are_all_counted,
    a_phase_counts_once_when_it_ends,
    concurrent_plan_ends_are_all_counted,
}

const OPERATION: &str = "execute_command";

async fn assess(fixture: &LifecycleFixture, plan: PlanId, risk: Risk) -> Assessment {
    let plan = fixture.plan(plan).await;
    let assessed = fixture.confidence.assess(&plan, OPERATION, risk).await;
    assessed.unwrap()
}

#[track_caller]
fn value(assessment: &Assessment, name: FactorName) -> f64 {
    let found = assessment.factors.iter().find(|it| it.name == name);
    found.unwrap().value
}

fn no_history_gives_a_middle_confidence(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        let plan = fixture.new_plan().await.identity.plan_id;
        let known = assess(&fixture, plan, Risk::default()).await;
        assert_eq!(value(&known, FactorName::PastSuccessRate), 0.5);
        assert_eq!(value(&known, FactorName::CodebaseFamiliarity), 0.0);
        assert_eq!(value(&known, FactorName::RiskAssessment), 0.0);
        // The sample has two rules: one of its action and one of its own.
        assert_eq!(value(&known, FactorName::InvariantComplexity), 2.0 / 12.0);
        let sum: f64 = known.factors.iter().map(|it| it.contribution).sum();
        assert!((known.confidence.value() - sum).abs() < 1e-12);
        for (factor, source) in known.factors.iter().zip([
            "execute_command: 0 successes, 0 failures",
            "local/shop: 0 of 0 finished plans were applied",
            "0 files, 0 deletions, 0 commands",
            "2 rules",
        ]) {
            assert_eq!(factor.source, source);
            assert!(known.explanation.contains(source), "{}", known.explanation);
        }
    });
}

/// The state at the beginning of a test.
struct ConfidenceInputs {
    applied: u32,
    cancelled: u32,
    failures: u32,
    rules: u32,
    risk: Risk,
}

const CONFIDENT: ConfidenceInputs = ConfidenceInputs {
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
    let sure = decide(backend, &CONFIDENT);
    assert!(sure.proceed, "{}", sure.explanation);
    for (name, doubtful) in [
        (
            FactorName::PastSuccessRate,
            ConfidenceInputs {
                failures: 18,
                ..CONFIDENT
            },
        ),
        (
            FactorName::CodebaseFamiliarity,
            ConfidenceInputs {
                cancelled: 15,
                ..CONFIDENT
            },
        ),
        (
            FactorName::RiskAssessment,
            ConfidenceInputs {
                risk: Risk {
                    files: 8,
                    deletes: 6,
                    commands: 8,
                },
                ..CONFIDENT
            },
        ),
        (
            FactorName::InvariantComplexity,
            ConfidenceInputs {
                rules: 20,
                ..CONFIDENT
            },
        ),
    ] {
        let decision = decide(backend, &doubtful);
        assert!(!decision.proceed, "{name:?}: {}", decision.explanation);
        for (factor, before) in decision.factors.iter().zip(&sure.factors) {
            let same = factor.value == before.value;
            assert_eq!(same, factor.name != name, "{factor} instead of {before}");
        }
    }
}

fn decide(backend: Backend, known: &ConfidenceInputs) -> EscalationDecision {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        for _ in 0..known.applied {
            apply(&fixture).await;
        }
        for _ in 0..known.cancelled {
            let plan = fixture.new_plan().await.identity.plan_id;
            fixture.lifecycle.cancel(plan, "no", "eva").await.unwrap();
        }
        let outcomes = [
            (18, OperationOutcome::Success),
            (known.failures, OperationOutcome::Failure),
        ];
        for (times, outcome) in outcomes {
            for _ in 0..times {
                let counted = fixture.confidence.record_outcome(OPERATION, outcome);
                counted.await.unwrap();
            }
        }
        for number in 0..known.rules {
            let rule = invariant(&format!("rule {number}"), InvariantScope::Global, 0);
            write(&fixture.opened.store, move |tx| tx.insert_invariant(&rule)).await;
        }
        let plan = fixture.new_plan().await.identity.plan_id;
        let cautious = BuiltInProfile::Cautious.profile();
        let assessment = assess(&fixture, plan, known.risk).await;
        assessment.gate(&cautious, ThresholdName::DecideInExecute)
    })
}

async fn apply(fixture: &LifecycleFixture) {
    let working_plan = WorkingPlan::start(fixture).await;
    working_plan.execute(fixture).await;
    let lifecycle = &fixture.lifecycle;
    lifecycle
        .as_owner(&working_plan.run)
        .complete()
        .await
        .unwrap();
    let owner = lifecycle.as_owner(&working_plan.run);
    owner.advance(Phase::Apply).await.unwrap();
    lifecycle
        .as_owner(&working_plan.run)
        .start(&PassingProbe)
        .await
        .unwrap();
    lifecycle
        .as_owner(&working_plan.run)
        .decide()
        .await
        .unwrap();
    lifecycle
        .as_owner(&working_plan.run)
        .mark_applied()
        .await
        .unwrap();
    working_plan.release().await;
}

fn outcomes_of_many_callers_are_all_counted(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = Arc::new(LifecycleFixture::with_samples(&test_db).await);
        run_concurrently(32, |caller| {
            let setup = Arc::clone(&fixture);
            async move {
                for round in 0..5 {
                    let outcome = match (caller + round) % 4 {
                        0 => OperationOutcome::Failure,
                        _ => OperationOutcome::Success,
                    };
                    let counted = setup.confidence.record_outcome(OPERATION, outcome);
                    counted.await.unwrap();
                }
            }
        })
        .await;
        let plan = fixture.new_plan().await.identity.plan_id;
        let known = assess(&fixture, plan, Risk::default()).await;
        assert_eq!(value(&known, FactorName::PastSuccessRate), 121.0 / 162.0);
    });
}

async fn counts(fixture: &LifecycleFixture, phase: Phase) -> (u64, u64) {
    let counts: OutcomeCounts = read(&fixture.opened.store, move |tx| {
        tx.outcome_counts(phase_operation(phase))
    })
    .await;
    (counts.successes, counts.failures)
}

fn a_phase_counts_once_when_it_ends(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = LifecycleFixture::with_samples(&test_db).await;
        apply(&fixture).await;
        for phase in Phase::ALL.iter().copied() {
            assert_eq!(counts(&fixture, phase).await, (1, 0), "{phase}");
        }
        let working_plan = WorkingPlan::start(&fixture).await;
        fixture
            .lifecycle
            .as_owner(&working_plan.run)
            .fail("no net")
            .await
            .unwrap();
        assert!(
            fixture
                .lifecycle
                .as_owner(&working_plan.run)
                .fail("again")
                .await
                .is_err()
        );
        assert_eq!(counts(&fixture, Phase::Strategize).await, (1, 1));
        assert_eq!(counts(&fixture, Phase::Execute).await, (1, 0));
    });
}

/// All update the same count while each holds its own plan: they must not deadlock.
fn concurrent_plan_ends_are_all_counted(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = Arc::new(LifecycleFixture::with_samples(&test_db).await);
        let mut at_work = Vec::new();
        for _ in 0..32 {
            at_work.push(Arc::new(WorkingPlan::start(&fixture).await));
        }
        let ended = run_concurrently(at_work.len(), |number| {
            let (setup, working) = (Arc::clone(&fixture), Arc::clone(&at_work[number]));
            async move {
                match number % 4 {
                    0 => setup.lifecycle.as_owner(&working.run).fail("no net").await,
                    _ => setup.lifecycle.as_owner(&working.run).complete().await,
                }
            }
        })
        .await;
        for answer in ended {
            answer.unwrap();
        }
        assert_eq!(counts(&fixture, Phase::Strategize).await, (24, 8));
    });
}

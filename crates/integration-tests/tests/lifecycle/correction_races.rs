//! Concurrent corrections of one plan: one wins, the others get a reason, and nothing is
//! half-written.

use std::sync::Arc;

use cleveragents_domain::CorrectionMode;
use cleveragents_engine::decisions::DecisionFailure;
use cleveragents_engine::lifecycle::{CancelOutcome, LifecycleError};
use cleveragents_integration_tests::plan_driver::PassingProbe;
use cleveragents_integration_tests::store_access::{read, run_concurrently};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract, trials};
use cleveragents_ports::StoreError;

use super::fixture::LifecycleFixture;
use super::working_plan::{
    all_decisions, correction, correction_state, create_decided_plan, superseded_ids,
};

contract! {
    concurrent_corrections_have_one_winner,
    concurrent_correction_and_start_are_serialized,
    concurrent_correction_and_cancel_are_serialized,
}

/// Opens the database a second time, where that is possible.
fn another_process(
    test_db: &TestDatabase,
    backend: Backend,
    fixture: &Arc<LifecycleFixture>,
) -> Arc<LifecycleFixture> {
    match backend {
        Backend::Memory => Arc::clone(fixture),
        Backend::Sqlite | Backend::Postgres => Arc::new(LifecycleFixture::open(test_db)),
    }
}

fn concurrent_corrections_have_one_winner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = Arc::new(LifecycleFixture::with_samples(&test_db).await);
        let other = another_process(&test_db, backend, &fixture);
        for _ in 0..trials(100, 5) {
            let it = create_decided_plan(&fixture).await;
            let targets = [it.first.decision_id; 4];
            let answers = run_concurrently(targets.len(), |number| {
                let setup = Arc::clone(if number % 2 == 0 { &fixture } else { &other });
                let request = correction(targets[number], CorrectionMode::Revert);
                async move { setup.decisions.correct(request).await }
            })
            .await;
            let won: Vec<_> = answers.iter().filter_map(|it| it.as_ref().ok()).collect();
            assert_eq!(won.len(), 1, "{answers:?}");
            for lost in answers.iter().filter_map(|it| it.as_ref().err()) {
                let superseded = matches!(lost, DecisionFailure::Superseded { decision }
                    if *decision == it.first.decision_id);
                assert!(superseded, "{lost}");
            }
            let (plan, decisions, corrections, _) = correction_state(&fixture, it.plan).await;
            assert_eq!(plan.attempt, 2);
            assert_eq!(corrections, [won[0].correction.clone()]);
            let new = decisions.iter().filter(|it| it.is_correction).count();
            assert_eq!(new, 1);
            fixture.assert_journal_agrees(it.plan).await;
        }
    });
}

fn concurrent_correction_and_start_are_serialized(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = Arc::new(LifecycleFixture::with_samples(&test_db).await);
        for round in 0..trials(100, 5) {
            let it = create_decided_plan(&fixture).await;
            let target = it.first.decision_id;
            let before = correction(it.apart.decision_id, CorrectionMode::Revert);
            fixture.decisions.correct(before).await.unwrap();
            let run = Arc::new(fixture.claim(it.plan).await);
            let mistaken_round = round % 2 == 0;
            let (corrected, started) = tokio::join!(
                tokio::spawn({
                    let decisions = if mistaken_round {
                        fixture.decisions_with_all_dead()
                    } else {
                        fixture.decisions.clone()
                    };
                    async move {
                        let request = correction(target, CorrectionMode::Revert);
                        decisions.correct(request).await
                    }
                }),
                tokio::spawn({
                    let (setup, run) = (Arc::clone(&fixture), Arc::clone(&run));
                    async move { setup.lifecycle.as_owner(&run).start(&PassingProbe).await }
                })
            );
            let (corrected, started) = (corrected.unwrap(), started.unwrap());
            let plan = fixture.plan(it.plan).await;
            let gone = superseded_ids(&all_decisions(&fixture, it.plan).await).contains(&target);
            assert_eq!(corrected.is_ok(), gone);
            assert_eq!(corrected.is_ok(), mistaken_round, "{corrected:?}");
            // From `strategize/queued` both orders let the plan start, unless the correction took
            // the run from its owner.
            let lost = matches!(
                started,
                Err(LifecycleError::Store(StoreError::LeaseLost { .. }))
            );
            assert!(started.is_ok() || (gone && lost), "{started:?}");
            assert_eq!(plan.attempt, if gone { 3 } else { 2 });
            fixture.assert_journal_agrees(it.plan).await;
        }
    });
}

fn concurrent_correction_and_cancel_are_serialized(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    block_on(async {
        let fixture = Arc::new(LifecycleFixture::with_samples(&test_db).await);
        let other = another_process(&test_db, backend, &fixture);
        for _ in 0..trials(100, 5) {
            let it = create_decided_plan(&fixture).await;
            let target = it.first.decision_id;
            let (corrected, cancelled) = tokio::join!(
                tokio::spawn({
                    let setup = Arc::clone(&fixture);
                    async move {
                        let request = correction(target, CorrectionMode::Revert);
                        setup.decisions.correct(request).await
                    }
                }),
                tokio::spawn({
                    let (other, plan) = (Arc::clone(&other), it.plan);
                    async move { other.lifecycle.cancel(plan, "enough", "ann").await }
                })
            );
            assert!(matches!(cancelled.unwrap(), Ok(CancelOutcome::Done(_))));
            let corrected = corrected.unwrap();
            let (plan, decisions, corrections, _) = correction_state(&fixture, it.plan).await;
            assert_eq!(plan.position.to_string(), "strategize/cancelled");
            match corrected {
                Ok(done) => {
                    assert_eq!(corrections, [done.correction]);
                    assert_eq!((plan.attempt, superseded_ids(&decisions).len()), (2, 3));
                }
                Err(refused) => {
                    assert!(refused.to_string().contains("which is final"), "{refused}");
                    assert_eq!(corrections, []);
                    assert_eq!((plan.attempt, superseded_ids(&decisions).len()), (1, 0));
                    assert!(!decisions.iter().any(|it| it.is_correction));
                }
            }
            fixture.assert_journal_agrees(it.plan).await;
        }
        let all = read(&fixture.opened.store, |tx| tx.plans()).await;
        assert!(all.iter().all(|plan| plan.position.is_terminal()));
    });
}

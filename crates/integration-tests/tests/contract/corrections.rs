//! Corrections: every attempt is kept, with legal state transitions only.

use cleveragents_domain::CorrectionState;
use cleveragents_domain::{Correction, Decision};
use cleveragents_integration_tests::assertions::{
    assert_conflict, assert_missing, assert_one_winner, assert_taken,
};
use cleveragents_integration_tests::lifecycle_samples::{
    correction, root_decision, store_sample_plan,
};
use cleveragents_integration_tests::samples::{at, plan_id};
use cleveragents_integration_tests::store_access::{read, run_concurrently, try_write, write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::StoreHandle;

contract! {
    a_correction_reads_back_in_every_field,
    a_correction_needs_a_decision_of_its_plan,
    concurrent_correction_steps_have_one_winner,
}

/// A stored decision and a correction of it.
async fn store_decision(store: &StoreHandle) -> (Decision, Correction) {
    let decision = root_decision(store_sample_plan(store).await);
    let sample = correction(&decision, 5);
    let (made, asked) = (decision.clone(), sample.clone());
    write(store, move |tx| {
        tx.insert_decision(&made)?;
        tx.insert_correction(&asked)
    })
    .await;
    (decision, sample)
}

fn a_correction_reads_back_in_every_field(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (decision, sample) = store_decision(&opened.store).await;
        let older = correction(&decision, 1);
        let asked = older.clone();
        write(&opened.store, move |tx| tx.insert_correction(&asked)).await;
        let plan = decision.plan_id;
        let all = read(&opened.store, move |tx| tx.corrections_of(plan)).await;
        assert_eq!(all, [older, sample.clone()]);
        let fragment = sample.id.to_string()[18..].parse().unwrap();
        let found = opened
            .store
            .read(move |tx| tx.find_correction(&fragment))
            .await;
        assert_eq!(found.unwrap(), sample);
        let again = sample.clone();
        assert_taken(
            try_write(&opened.store, move |tx| tx.insert_correction(&again)).await,
            (
                "the correction id",
                &sample.id.to_string(),
                &plan.to_string(),
            ),
        );
        let none = "zzzzzzzz".parse().unwrap();
        let none = opened.store.read(move |tx| tx.find_correction(&none)).await;
        assert_missing(none, ("correction", "ZZZZZZZZ"));
    });
}

fn a_correction_needs_a_decision_of_its_plan(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (decision, _) = store_decision(&opened.store).await;
        let elsewhere = Correction {
            plan_id: store_sample_plan(&opened.store).await,
            ..correction(&decision, 0)
        };
        let refused = try_write(&opened.store, move |tx| tx.insert_correction(&elsewhere)).await;
        let id = decision.decision_id.to_string();
        assert_missing(refused, ("decision of this plan", &id));
        let nowhere = correction(&root_decision(plan_id()), 0);
        let plan = nowhere.plan_id.to_string();
        let refused = try_write(&opened.store, move |tx| tx.insert_correction(&nowhere)).await;
        assert_missing(refused, ("plan", &plan));
    });
}

fn concurrent_correction_steps_have_one_winner(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let (decision, sample) = store_decision(&opened.store).await;
        let next = sample
            .transition(CorrectionState::Executing, at(9))
            .unwrap();
        let answers = run_concurrently(16, |_| {
            let (store, next) = (opened.store.clone(), next.clone());
            async move { try_write(&store, move |tx| tx.update_correction(&next)).await }
        })
        .await;
        let (version, refused) = assert_one_winner(answers);
        assert_eq!(version, 2);
        for error in refused {
            assert_conflict::<()>(Err(error), ("correction", 1, 2));
        }
        let plan = decision.plan_id;
        let found = read(&opened.store, move |tx| tx.corrections_of(plan)).await;
        assert_eq!(found, [Correction { version: 2, ..next }]);
        let unknown = correction(&decision, 0);
        let id = unknown.id.to_string();
        let refused = try_write(&opened.store, move |tx| tx.update_correction(&unknown)).await;
        assert_missing(refused, ("correction", &id));
    });
}

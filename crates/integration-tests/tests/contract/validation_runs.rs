//! Validation results: the newest round of an attempt counts.

use cleveragents_domain::ValidationSummary;
use cleveragents_domain::id::PlanId;
use cleveragents_integration_tests::assertions::assert_missing;
use cleveragents_integration_tests::execution_samples::validation_summary;
use cleveragents_integration_tests::lifecycle_samples::store_sample_plan;
use cleveragents_integration_tests::samples::plan_id;
use cleveragents_integration_tests::store_access::{read, try_write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::{Result, StoreHandle};

contract! {
    the_newest_round_of_an_attempt_is_found,
}

async fn put(
    store: &StoreHandle,
    plan: PlanId,
    at: (u32, u32),
    summary: ValidationSummary,
) -> Result<()> {
    try_write(store, move |tx| {
        tx.put_validation_run(plan, at.0, at.1, &summary)
    })
    .await
}

async fn newest(store: &StoreHandle, plan: PlanId, attempt: u32) -> Option<ValidationSummary> {
    read(store, move |tx| tx.newest_validation_run(plan, attempt)).await
}

fn the_newest_round_of_an_attempt_is_found(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let store = &opened.store;
        let (plan, other) = (
            store_sample_plan(store).await,
            store_sample_plan(store).await,
        );
        assert_eq!(newest(store, plan, 1).await, None);
        let odd = validation_summary("so \0 \u{fdd0}");
        put(store, plan, (1, 2), odd.clone()).await.unwrap();
        put(store, plan, (1, 1), validation_summary("earlier"))
            .await
            .unwrap();
        let next = validation_summary("next");
        put(store, plan, (2, 1), next.clone()).await.unwrap();
        put(store, other, (1, 3), validation_summary("other"))
            .await
            .unwrap();
        assert_eq!(newest(store, plan, 1).await, Some(odd));
        assert_eq!(newest(store, plan, 2).await, Some(next));
        assert_eq!(newest(store, plan, 3).await, None);
        let again = validation_summary("again");
        put(store, plan, (1, 2), again.clone()).await.unwrap();
        assert_eq!(newest(store, plan, 1).await, Some(again));
        let unowned = plan_id();
        assert_missing(
            put(store, unowned, (1, 1), validation_summary("1")).await,
            ("plan", &unowned.to_string()),
        );
    });
}

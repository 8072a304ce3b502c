//! Strategies: the newest is found, and one is approved by its hash, once.

use cleveragents_domain::id::PlanId;
use cleveragents_domain::strategy::{Approver, Strategy, StrategyRecord};
use cleveragents_integration_tests::assertions::{assert_missing, assert_refused};
use cleveragents_integration_tests::execution_samples::strategy;
use cleveragents_integration_tests::lifecycle_samples::store_sample_plan;
use cleveragents_integration_tests::samples::{at, plan_id};
use cleveragents_integration_tests::store_access::{read, run_concurrently, try_write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::{Result, StoreHandle};

contract! {
    the_newest_strategy_is_found_with_its_number,
    concurrent_strategies_are_numbered_without_gaps,
    a_strategy_is_approved_by_its_hash,
    the_first_approval_stays,
}

async fn insert(store: &StoreHandle, strategy: &StrategyRecord) -> Result<i64> {
    let strategy = strategy.clone();
    try_write(store, move |tx| tx.insert_strategy(&strategy)).await
}

async fn approve(store: &StoreHandle, strategy: &StrategyRecord) -> Result<()> {
    let strategy = strategy.clone();
    try_write(store, move |tx| tx.approve_strategy(&strategy)).await
}

async fn newest(store: &StoreHandle, plan: PlanId) -> Option<StrategyRecord> {
    read(store, move |tx| tx.newest_strategy(plan)).await
}

/// The strategy with an approval by `who`.
fn approved(strategy: &StrategyRecord, who: &str, seconds: i64) -> StrategyRecord {
    StrategyRecord {
        approved_by: Some(Approver::User(who.to_owned())),
        approved_at: Some(at(seconds)),
        ..strategy.clone()
    }
}

fn the_newest_strategy_is_found_with_its_number(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let plan = store_sample_plan(&opened.store).await;
        assert_eq!(newest(&opened.store, plan).await, None);
        for number in 1..=3 {
            let sample = StrategyRecord {
                strategy: Strategy {
                    summary: format!("the {number}."),
                    ..strategy(plan).strategy
                },
                ..strategy(plan)
            };
            assert_eq!(insert(&opened.store, &sample).await.unwrap(), number);
            let wanted = StrategyRecord { number, ..sample };
            assert_eq!(newest(&opened.store, plan).await, Some(wanted));
        }
        // A strategy approved before it was stored stays approved.
        let sample = approved(&strategy(plan), "profile", 3);
        assert_eq!(insert(&opened.store, &sample).await.unwrap(), 4);
        let wanted = StrategyRecord {
            number: 4,
            ..sample
        };
        assert_eq!(newest(&opened.store, plan).await, Some(wanted));
        let unowned = plan_id();
        assert_missing(
            insert(&opened.store, &strategy(unowned)).await,
            ("plan", &unowned.to_string()),
        );
    });
}

fn concurrent_strategies_are_numbered_without_gaps(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let plan = store_sample_plan(&opened.store).await;
        let mut numbers = run_concurrently(16, |_| {
            let store = opened.store.clone();
            async move { insert(&store, &strategy(plan)).await.unwrap() }
        })
        .await;
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=16).collect::<Vec<i64>>());
    });
}

fn a_strategy_is_approved_by_its_hash(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let plan = store_sample_plan(&opened.store).await;
        let sample = StrategyRecord {
            number: 1,
            ..strategy(plan)
        };
        insert(&opened.store, &sample).await.unwrap();
        let other = "6".repeat(64);
        let wrong = StrategyRecord {
            hash: other.clone(),
            ..approved(&sample, "eva", 5)
        };
        let reason = format!(
            "has the hash {}, not {other} as the one that was approved",
            sample.hash
        );
        assert_refused(
            approve(&opened.store, &wrong).await,
            ("strategy", "1", &reason),
        );
        let absent = StrategyRecord {
            number: 2,
            ..approved(&sample, "eva", 5)
        };
        assert_missing(
            approve(&opened.store, &absent).await,
            ("strategy of this plan", "2"),
        );
        assert_eq!(newest(&opened.store, plan).await, Some(sample.clone()));
        let right = approved(&sample, "eva", 5);
        approve(&opened.store, &right).await.unwrap();
        assert_eq!(newest(&opened.store, plan).await, Some(right));
    });
}

fn the_first_approval_stays(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let plan = store_sample_plan(&opened.store).await;
        let sample = StrategyRecord {
            number: 1,
            ..strategy(plan)
        };
        insert(&opened.store, &sample).await.unwrap();
        run_concurrently(16, |task| {
            let (store, sample) = (opened.store.clone(), sample.clone());
            async move {
                let mine = approved(&sample, &task.to_string(), task as i64);
                approve(&store, &mine).await.unwrap();
            }
        })
        .await;
        let first = newest(&opened.store, plan).await.unwrap();
        // Approver and time come from the same approval.
        let who = first.approved_by.as_ref().unwrap().to_string();
        let who: i64 = who.parse().unwrap();
        assert_eq!(first.approved_at, Some(at(who)));
        approve(&opened.store, &approved(&sample, "late", 99))
            .await
            .unwrap();
        assert_eq!(newest(&opened.store, plan).await, Some(first));
    });
}

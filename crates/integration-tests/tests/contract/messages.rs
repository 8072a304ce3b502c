//! Messages to a plan's owner: in order, each taken once.

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{MessageKind, PlanMessage};
use cleveragents_integration_tests::assertions::{assert_missing, assert_taken};
use cleveragents_integration_tests::lifecycle_samples::{message, store_sample_plan};
use cleveragents_integration_tests::samples::plan_id;
use cleveragents_integration_tests::store_access::{read, run_concurrently, try_write, write};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::{Result, StoreError, StoreHandle};

contract! {
    a_message_is_taken_as_it_was_sent,
    concurrent_messages_are_taken_once_in_order,
    messages_taken_in_a_failed_write_are_redelivered,
    a_plan_gets_its_own_messages_only,
}

async fn send(store: &StoreHandle, message: &PlanMessage) -> Result<i64> {
    let message = message.clone();
    try_write(store, move |tx| tx.send_message(&message)).await
}

async fn take(store: &StoreHandle, plan: PlanId) -> Vec<PlanMessage> {
    write(store, move |tx| tx.take_messages(plan, MessageKind::ALL)).await
}

async fn pending(store: &StoreHandle, plan: PlanId) -> u64 {
    read(store, move |tx| tx.pending_messages(plan, MessageKind::ALL)).await
}

fn a_message_is_taken_as_it_was_sent(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let plan = store_sample_plan(&opened.store).await;
        let mut sent = Vec::new();
        for (kind, number) in MessageKind::ALL.iter().zip(1..) {
            let sample = PlanMessage {
                kind: *kind,
                ..message(plan, "so \0 und \u{fdd0}")
            };
            assert_eq!(send(&opened.store, &sample).await.unwrap(), number);
            sent.push(PlanMessage {
                sequence: number,
                ..sample
            });
        }
        assert_eq!(pending(&opened.store, plan).await, 3);
        let taken = take(&opened.store, plan).await;
        assert!(taken.iter().all(|message| message.taken_at.is_some()));
        let untimed = |message: PlanMessage| PlanMessage {
            taken_at: None,
            ..message
        };
        let taken: Vec<PlanMessage> = taken.into_iter().map(untimed).collect();
        assert_eq!(taken, sent);
        assert_eq!(pending(&opened.store, plan).await, 0);
        assert!(take(&opened.store, plan).await.is_empty());
        let id = sent[0].id.to_string();
        assert_taken(
            send(&opened.store, &sent[0]).await,
            ("the message id", &id, "another message"),
        );
        let nowhere = message(plan_id(), "hello");
        assert_missing(
            send(&opened.store, &nowhere).await,
            ("plan", &nowhere.plan_id.to_string()),
        );
        // Numbers continue.
        assert_eq!(
            send(&opened.store, &message(plan, "more")).await.unwrap(),
            4
        );
    });
}

fn concurrent_messages_are_taken_once_in_order(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let plan = store_sample_plan(&opened.store).await;
        let taken = run_concurrently(16, |task| {
            let store = opened.store.clone();
            async move {
                let mut taken = Vec::new();
                for round in 0..10 {
                    // Every other task sends, the rest receive.
                    if task % 2 == 0 {
                        let body = format!("{task} {round}");
                        send(&store, &message(plan, &body)).await.unwrap();
                    } else {
                        let batch = take(&store, plan).await;
                        assert!(batch.is_sorted_by_key(|message| message.sequence));
                        taken.extend(batch);
                    }
                }
                taken
            }
        })
        .await;
        let mut taken: Vec<PlanMessage> = taken.into_iter().flatten().collect();
        taken.extend(take(&opened.store, plan).await);
        taken.sort_by_key(|message| message.sequence);
        let places: Vec<i64> = taken.iter().map(|message| message.sequence).collect();
        assert_eq!(places, (1..=80).collect::<Vec<i64>>());
        assert_eq!(pending(&opened.store, plan).await, 0);
    });
}

fn messages_taken_in_a_failed_write_are_redelivered(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let plan = store_sample_plan(&opened.store).await;
        send(&opened.store, &message(plan, "stop")).await.unwrap();
        let refused: Result<()> = try_write(&opened.store, move |tx| {
            assert_eq!(tx.take_messages(plan, MessageKind::ALL)?.len(), 1);
            Err(StoreError::internal("the owner cannot go on"))
        })
        .await;
        refused.unwrap_err();
        assert_eq!(pending(&opened.store, plan).await, 1);
        assert_eq!(take(&opened.store, plan).await.len(), 1);
    });
}

fn a_plan_gets_its_own_messages_only(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let one = store_sample_plan(&opened.store).await;
        let two = store_sample_plan(&opened.store).await;
        send(&opened.store, &message(one, "stop")).await.unwrap();
        assert_eq!(pending(&opened.store, two).await, 0);
        assert!(take(&opened.store, two).await.is_empty());
        assert_eq!(pending(&opened.store, one).await, 1);
    });
}

//! Errors of plans: none is lost under concurrency, and they have one order.

use std::collections::BTreeSet;

use cleveragents_domain::event::payloads::ErrorRecorded;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{ErrorRecord, NewEvent, StreamId};
use cleveragents_integration_tests::assertions::assert_missing;
use cleveragents_integration_tests::lifecycle_samples::{error, store_sample_plan};
use cleveragents_integration_tests::samples::{at, plan_id};
use cleveragents_integration_tests::store_access::{
    events, payload_of, read, run_concurrently, try_write,
};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_ports::{Result, StoreError, StoreHandle};

contract! {
    an_error_reads_back_in_every_field,
    identical_errors_are_counted_under_the_first,
    concurrent_first_errors_are_all_stored,
    errors_are_read_in_pages,
    plans_do_not_see_each_others_errors,
}

async fn record(store: &StoreHandle, error: &ErrorRecord) -> Result<ErrorRecord> {
    let error = error.clone();
    try_write(store, move |tx| tx.record_error(&error)).await
}

async fn errors_of(store: &StoreHandle, plan: PlanId) -> Vec<ErrorRecord> {
    read(store, move |tx| tx.errors_of(plan, 0, u32::MAX)).await
}

fn an_error_reads_back_in_every_field(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let plan = store_sample_plan(&opened.store).await;
        let long = "\0 no net \u{fdd0}".repeat(10_000);
        for (message, place) in [("no net", 1), (long.as_str(), 2)] {
            let sample = error(plan, message, 1);
            let recorded = record(&opened.store, &sample).await.unwrap();
            let wanted = ErrorRecord {
                sequence: Some(place),
                ..sample
            };
            assert_eq!(recorded, wanted);
            assert_eq!(errors_of(&opened.store, plan).await.last(), Some(&wanted));
        }
        let nowhere = error(plan_id(), "no plan", 1);
        assert_missing(
            record(&opened.store, &nowhere).await,
            ("plan", &nowhere.plan_id.to_string()),
        );
    });
}

fn identical_errors_are_counted_under_the_first(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let plan = store_sample_plan(&opened.store).await;
        let first = record(&opened.store, &error(plan, "no net", 1))
            .await
            .unwrap();
        let other = record(&opened.store, &error(plan, "no disk", 1))
            .await
            .unwrap();
        let again = record(&opened.store, &error(plan, "no net", 2))
            .await
            .unwrap();
        // The newest attempt and time, with the id and number of the first.
        let wanted = ErrorRecord {
            attempt: 2,
            occurrences: 2,
            at: at(2),
            ..first.clone()
        };
        assert_eq!(again, wanted);
        assert_eq!((first.sequence, other.sequence), (Some(1), Some(2)));
        assert_eq!(errors_of(&opened.store, plan).await, [wanted, other]);
    });
}

fn concurrent_first_errors_are_all_stored(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let plan = store_sample_plan(&opened.store).await;
        let answers = run_concurrently(16, |task| {
            let store = opened.store.clone();
            async move {
                let mut recorded = Vec::new();
                for round in 0..20 {
                    // Half are common to all, half unique to each.
                    let message = match round % 2 {
                        0 => format!("shared {}", round % 4),
                        _ => format!("task {task} round {round}"),
                    };
                    let error = error(plan, &message, round);
                    // The record and its event are one commit, as the service does it.
                    let answer = try_write(&store, move |tx| {
                        let recorded = tx.record_error(&error)?;
                        let event = NewEvent::of("t", &ErrorRecorded(recorded.clone()))
                            .map_err(StoreError::internal)?;
                        tx.append(StreamId::Plan(plan), &[event])?;
                        Ok(recorded)
                    })
                    .await;
                    recorded.push(answer.unwrap());
                }
                recorded
            }
        })
        .await;
        let found = errors_of(&opened.store, plan).await;
        let counted: u64 = found.iter().map(|error| error.occurrences).sum();
        assert_eq!(counted, 16 * 20);
        assert_eq!(found.len(), 2 + 16 * 10);
        let places: Vec<i64> = found.iter().filter_map(|error| error.sequence).collect();
        assert_eq!(places, (1..=162).collect::<Vec<i64>>());
        // Every answer was true at its time: no count was returned twice.
        let mut seen = BTreeSet::new();
        for recorded in answers.iter().flatten() {
            assert!(seen.insert((recorded.sequence, recorded.occurrences)));
        }
        // The journal has the same records in the same order.
        let mut first_message = BTreeSet::new();
        let mut text = Vec::new();
        for event in events(&opened.store, StreamId::Plan(plan)).await {
            let ErrorRecorded(error) = payload_of(&event);
            if first_message.insert(error.id) {
                text.push(error.id);
            }
        }
        let listed: Vec<_> = found.iter().map(|error| error.id).collect();
        assert_eq!(text, listed);
    });
}

fn errors_are_read_in_pages(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let plan = store_sample_plan(&opened.store).await;
        for number in 0..7 {
            record(&opened.store, &error(plan, &format!("error {number}"), 1))
                .await
                .unwrap();
        }
        let all = errors_of(&opened.store, plan).await;
        let mut paged: Vec<ErrorRecord> = Vec::new();
        loop {
            let after = paged.last().and_then(|error| error.sequence).unwrap_or(0);
            let page = read(&opened.store, move |tx| tx.errors_of(plan, after, 3)).await;
            if page.is_empty() {
                break;
            }
            paged.extend(page);
        }
        assert_eq!((paged.len(), paged), (7, all));
    });
}

fn plans_do_not_see_each_others_errors(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let one = store_sample_plan(&opened.store).await;
        let two = store_sample_plan(&opened.store).await;
        record(&opened.store, &error(one, "same", 1)).await.unwrap();
        let other = record(&opened.store, &error(two, "same", 1)).await.unwrap();
        assert_eq!((other.sequence, other.occurrences), (Some(1), 1));
        assert_eq!(errors_of(&opened.store, two).await, [other]);
    });
}

//! Short forms of store calls, which keep the tests readable.

#![expect(
    clippy::expect_used,
    reason = "what tests ask for must succeed unless they say otherwise"
)]

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::{Event, EventPayload, PayloadOutcome, StreamId};
use cleveragents_engine::journal::Tail;
use cleveragents_engine::runs::{ReleaseOutcome, RunLease};
use cleveragents_ports::{Cursor, Result, StoreHandle, StreamHead, Transaction};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Barrier;

use crate::samples::event;
use crate::test_database::new_operation;

/// Longer than any test takes: a test that would wait forever fails instead.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// Runs a write with a fresh operation id and returns its result, success or not.
pub async fn try_write<T>(
    store: &StoreHandle,
    change: impl Fn(&mut dyn Transaction) -> Result<T> + Send + 'static,
) -> Result<T>
where
    T: Serialize + DeserializeOwned,
{
    store.write(new_operation("test.attempt"), change).await
}

/// Runs a write that must succeed.
///
/// # Panics
///
/// If it fails.
pub async fn write<T>(
    store: &StoreHandle,
    change: impl Fn(&mut dyn Transaction) -> Result<T> + Send + 'static,
) -> T
where
    T: Serialize + DeserializeOwned,
{
    try_write(store, change).await.expect("the write succeeds")
}

/// Runs a read that must succeed.
///
/// # Panics
///
/// If it fails.
pub async fn read<T: Send + 'static>(
    store: &StoreHandle,
    look: impl Fn(&mut dyn Transaction) -> Result<T> + Send + 'static,
) -> T {
    store.read(look).await.expect("the read succeeds")
}

/// Releases a run that has no pending messages.
pub async fn release_run(run: RunLease) {
    match run.release().await {
        Ok(ReleaseOutcome::Done) => {}
        other => panic!("{other:?} instead of a released run"),
    }
}

pub async fn append(store: &StoreHandle, stream: StreamId, n: i64) -> StreamHead {
    write(store, move |tx| tx.append(stream, &[event(n)])).await
}

pub async fn events(store: &StoreHandle, stream: StreamId) -> Vec<Event> {
    read(store, move |tx| tx.events(stream, 0, u32::MAX)).await
}

/// The payload of an event.
///
/// # Panics
///
/// If the event is of another kind, was purged, or cannot be read.
#[track_caller]
pub fn payload_of<P: EventPayload>(event: &Event) -> P {
    match event.read() {
        Ok(PayloadOutcome::Current(payload)) => payload,
        Ok(_) => panic!("the payload of {} is not current", event.kind),
        Err(error) => panic!("{error}"),
    }
}

/// Reads the first `count` events of all streams in pages of `page`, each with its cursor. Waits
/// for them, because PostgreSQL shows an event only once no older transaction is running.
///
/// # Panics
///
/// If they do not arrive, or more than those arrive.
pub async fn events_of_all(store: &StoreHandle, count: usize, page: u32) -> Vec<(Cursor, Event)> {
    let collect = async {
        let mut found: Vec<(Cursor, Event)> = Vec::new();
        while found.len() < count {
            let after = found.last().map(|(cursor, _)| *cursor).unwrap_or_default();
            let next = read(store, move |tx| tx.all_events(after, page)).await;
            assert!(next.len() <= page as usize, "a page is as long as asked");
            found.extend(next);
        }
        assert_eq!(found.len(), count, "no more events than were written");
        found
    };
    with_timeout(collect).await
}

/// Returns the next `count` events of a tail.
///
/// # Panics
///
/// If they do not arrive, or more than those arrive with them.
pub async fn follow(tail: &mut Tail, count: usize) -> Vec<Event> {
    let collect = async {
        let mut found = Vec::new();
        while found.len() < count {
            found.extend(tail.next().await.expect("the tail continues"));
        }
        assert_eq!(found.len(), count, "no more events than were written");
        found
    };
    with_timeout(collect).await
}

/// Awaits `future` with a timeout.
///
/// # Panics
///
/// If it takes longer than [`TIMEOUT`].
pub async fn with_timeout<T>(future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(TIMEOUT, future).await {
        Ok(value) => value,
        Err(_) => panic!("nothing came of it in {} seconds", TIMEOUT.as_secs()),
    }
}

/// Starts `count` tasks at the same moment; returns their results in the order of their numbers.
///
/// # Panics
///
/// If one of them panics.
pub async fn run_concurrently<T, F>(count: usize, start: impl Fn(usize) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let barrier = Arc::new(Barrier::new(count));
    let begin = |number| {
        let (task, barrier) = (start(number), Arc::clone(&barrier));
        tokio::spawn(async move {
            barrier.wait().await;
            task.await
        })
    };
    let tasks: Vec<_> = (0..count).map(begin).collect();
    let mut answers = Vec::with_capacity(count);
    for task in tasks {
        answers.push(with_timeout(task).await.expect("no task panics"));
    }
    answers
}

//! The `system` stream: events of the installation, not of a plan.

use cleveragents_domain::{Event, EventKind, EventPayload, StreamId};
use cleveragents_ports::{
    Result, StoreError, StoreHandle, StoreOperation, StreamHead, Transaction,
};

use super::new_event;

/// The maximum number of events that one read returns.
const PAGE: u32 = 1000;

/// Whether this caller was the first to record the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordOutcome {
    Recorded,
    AlreadyRecorded,
}

/// Appends an event by `actor`.
pub async fn record_system_event(
    store: &StoreHandle,
    operation: StoreOperation,
    actor: &str,
    payload: &impl EventPayload,
) -> Result<()> {
    let event = new_event(actor, payload)?;
    let appended = store.write(operation, move |tx| {
        tx.append(StreamId::System, std::slice::from_ref(&event))
    });
    let _: StreamHead = appended.await?;
    Ok(())
}

/// Appends an event by `actor` of a kind that the system stream may have only once.
///
/// The append comes first: it locks the stream's row, so of several processes the later ones see
/// the event of the first and roll back their own (laws 1 and 3).
pub async fn record_system_event_once<P: EventPayload>(
    store: &StoreHandle,
    operation: StoreOperation,
    actor: &str,
    payload: &P,
) -> Result<RecordOutcome> {
    // A read first: usually the event exists, and a write would take the lock of the stream.
    if store
        .read(|tx| has_event_kind(tx, &P::KIND, i64::MAX))
        .await?
    {
        return Ok(RecordOutcome::AlreadyRecorded);
    }
    let event = new_event(actor, payload)?;
    let written = store.write(operation, move |tx| {
        let head = tx.append(StreamId::System, std::slice::from_ref(&event))?;
        if has_event_kind(tx, &P::KIND, head.stream_seq)? {
            Err(RecordError::AlreadyRecorded)
        } else {
            Ok(())
        }
    });
    match written.await {
        Ok(()) => Ok(RecordOutcome::Recorded),
        Err(RecordError::AlreadyRecorded) => Ok(RecordOutcome::AlreadyRecorded),
        Err(RecordError::Store(error)) => Err(error),
    }
}

#[derive(Debug)]
enum RecordError {
    AlreadyRecorded,
    Store(StoreError),
}

impl From<StoreError> for RecordError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Returns whether the system stream has an event of that kind before sequence number `end`.
fn has_event_kind(tx: &mut dyn Transaction, kind: &EventKind, end: i64) -> Result<bool> {
    let mut after = 0;
    loop {
        let events = tx.events(StreamId::System, after, PAGE)?;
        let Some(last) = events.last() else {
            return Ok(false);
        };
        after = last.stream_seq;
        let found = |event: &Event| event.stream_seq < end && event.kind == *kind;
        if events.iter().any(found) {
            return Ok(true);
        }
    }
}

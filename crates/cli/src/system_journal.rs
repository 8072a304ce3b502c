//! Events that commands append to the `system` stream, the journal of the installation.

use cleveragents_domain::{EventKind, EventPayload, NewEvent, StreamId};
use cleveragents_ports::StoreError;
use cleveragents_ports::{Result, StreamHead, Transaction};

use crate::bootstrap::AppContext;

const PAGE: u32 = 1000;

/// Whether this process was the first to record the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordOutcome {
    Recorded,
    AlreadyRecorded,
}

pub fn record(
    app: &AppContext<'_>,
    label: &'static str,
    payload: &impl EventPayload,
) -> Result<()> {
    let event = new_event(app, payload)?;
    let appended = app.store().write(app.operation(label), move |tx| {
        tx.append(StreamId::System, std::slice::from_ref(&event))
    });
    let _: StreamHead = app.block_on(appended)?;
    Ok(())
}

/// Appends an event of a kind that the system stream may have only once.
///
/// The append comes first: it locks the stream's row, so of several processes the later ones see
/// the event of the first and roll back their own (laws 1 and 3).
pub fn record_once<P: EventPayload>(
    app: &AppContext<'_>,
    label: &'static str,
    payload: &P,
) -> Result<RecordOutcome> {
    // A read first: usually the event exists, and a write would take the lock of the stream.
    let looked = app
        .store()
        .read(|tx| has_event_kind(tx, &P::KIND, i64::MAX));
    if app.block_on(looked)? {
        return Ok(RecordOutcome::AlreadyRecorded);
    }
    let event = new_event(app, payload)?;
    let written = app.store().write(app.operation(label), move |tx| {
        let head = tx.append(StreamId::System, std::slice::from_ref(&event))?;
        if has_event_kind(tx, &P::KIND, head.stream_seq)? {
            Err(RecordError::AlreadyRecorded)
        } else {
            Ok(())
        }
    });
    match app.block_on(written) {
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

fn new_event(app: &AppContext<'_>, payload: &impl EventPayload) -> Result<NewEvent> {
    NewEvent::of(app.actor(), payload).map_err(StoreError::internal)
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
        let found =
            |event: &cleveragents_domain::Event| event.stream_seq < end && event.kind == *kind;
        if events.iter().any(found) {
            return Ok(true);
        }
    }
}

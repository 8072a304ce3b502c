//! What the commands put on the installation's own record, the `system` stream.

use cleveragents_domain::{EventKind, NewEvent, StreamId};
use cleveragents_engine::StoreError;
use cleveragents_engine::ports::{Head, Result, Unit};
use serde::Serialize;

use crate::wiring::Wired;

const PAGE: u32 = 1000;

/// Whether this process was the first to say something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    Yes,
    No,
}

/// Appends an event to the system stream.
pub fn record(
    wired: &Wired<'_>,
    label: &'static str,
    kind: EventKind,
    payload: &impl Serialize,
) -> Result<()> {
    let event = event(wired, kind, payload)?;
    let appended = wired.store().write(wired.operation(label), move |unit| {
        unit.append(StreamId::System, std::slice::from_ref(&event))
    });
    let _: Head = wired.wait(appended)?;
    Ok(())
}

/// Appends an event of a kind that stands in the system stream at most once.
///
/// The append comes first: it takes the stream's row, so that of several processes the later
/// ones see the event of the first and undo their own (laws 1 and 3).
pub fn record_once(
    wired: &Wired<'_>,
    label: &'static str,
    kind: EventKind,
    payload: &impl Serialize,
) -> Result<First> {
    let wanted = kind.clone();
    let looked = wired
        .store()
        .read(move |unit| has_kind(unit, &wanted, i64::MAX));
    if wired.wait(looked)? {
        return Ok(First::No);
    }
    let event = event(wired, kind.clone(), payload)?;
    let written = wired.store().write(wired.operation(label), move |unit| {
        let head = unit.append(StreamId::System, std::slice::from_ref(&event))?;
        match has_kind(unit, &kind, head.stream_seq)? {
            true => Err(Refused::Already),
            false => Ok(()),
        }
    });
    match wired.wait(written) {
        Ok(()) => Ok(First::Yes),
        Err(Refused::Already) => Ok(First::No),
        Err(Refused::Store(error)) => Err(error),
    }
}

/// Why nothing was appended.
#[derive(Debug)]
enum Refused {
    Already,
    Store(StoreError),
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

fn event(wired: &Wired<'_>, kind: EventKind, payload: &impl Serialize) -> Result<NewEvent> {
    NewEvent::new(kind, wired.actor(), payload).map_err(StoreError::internal)
}

/// Whether the system stream has an event of that kind before the place `end`.
fn has_kind(unit: &mut dyn Unit, kind: &EventKind, end: i64) -> Result<bool> {
    let mut after = 0;
    loop {
        let events = unit.events(StreamId::System, after, PAGE)?;
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

//! Events of a plan's journal as people and programs see them, read at once or followed.

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{Event, EventKind, StreamId};
use cleveragents_engine::journal::Tail;
use cleveragents_engine::journal::tail::POLL;
use cleveragents_engine::lifecycle::LifecycleError;
use cleveragents_engine::{StoreError, StoreHandle};
use serde_json::{Value, json};

use crate::failure::{Failure, excerpt};
use crate::output::{Cell, Lines, Reader, Tone};
use crate::wiring::Wired;

/// An event for programs.
pub(super) fn data(event: &Event) -> Value {
    json!({
        "seq": event.seq,
        "plan_seq": event.stream_seq,
        "kind": event.kind,
        "v": event.v,
        "at": event.at,
        "actor": event.actor,
        "payload": payload(event),
        "hash": event.hash,
    })
}

/// What the event says, unless it was erased.
pub(super) fn payload(event: &Event) -> Option<Value> {
    let payload = event.payload.as_ref()?;
    serde_json::from_str(payload.get()).ok()
}

pub(super) const HEADERS: [&str; 5] = ["seq", "at", "kind", "actor", "what"];

/// An event for people.
pub(super) fn cells(event: &Event) -> Vec<Cell> {
    let tone = match event.kind {
        EventKind::PlanErrored | EventKind::ErrorRecorded => Tone::Bad,
        EventKind::PlanApplied => Tone::Good,
        _ => Tone::Strong,
    };
    vec![
        event.stream_seq.to_string().into(),
        Cell::new(event.at.to_string(), Tone::Faint),
        Cell::new(event.kind.as_str(), tone),
        Cell::new(event.actor.clone(), Tone::Faint),
        what(event).into(),
    ]
}

/// The gist of the payload.
fn what(event: &Event) -> String {
    let Some(payload) = payload(event) else {
        return "(erased)".to_owned();
    };
    let text = |key: &str| payload.get(key).and_then(Value::as_str);
    let moved = match (text("from"), text("to")) {
        (Some(from), Some(to)) => Some(format!("{from} → {to}")),
        _ => None,
    };
    let words = ["reason", "message", "chosen_option", "body", "name", "text"];
    let said = words.iter().find_map(|key| text(key)).map(excerpt);
    let parts: Vec<String> = moved.into_iter().chain(said).collect();
    parts.join(": ")
}

/// Follows a plan's journal, giving each event to `show`, until the plan is finished and nobody
/// runs it, or nobody reads any more. Answers with the last place seen.
pub(super) fn follow(
    wired: &Wired<'_>,
    lines: &Lines,
    (plan, after): (PlanId, i64),
    mut show: impl FnMut(&Event) -> Result<Reader, Failure>,
) -> Result<i64, Failure> {
    let store = wired.store().clone();
    let mut tail = Tail::of_stream(store.clone(), StreamId::Plan(plan), after);
    let mut last = after;
    wired.wait(async {
        loop {
            // Asked before reading: what comes after a finished plan is read below.
            let finished = is_finished(&store, plan).await?;
            let mut events = tail.available().await?;
            if events.is_empty() {
                if finished || lines.reader() == Reader::Gone {
                    return Ok(last);
                }
                // Now and then who reads is looked after, and whether anybody runs the plan.
                events = match tokio::time::timeout(POLL, tail.next()).await {
                    Ok(events) => events?,
                    Err(_) => continue,
                };
            }
            for event in &events {
                last = event.stream_seq;
                if show(event)? == Reader::Gone {
                    return Ok(last);
                }
            }
        }
    })
}

async fn is_finished(store: &StoreHandle, plan: PlanId) -> Result<bool, LifecycleError> {
    let look = store.read(move |unit| {
        let now = unit.now()?;
        let run = unit.run_of(plan)?;
        if run.is_some_and(|run| run.expires_at > now) {
            return Ok(false);
        }
        match unit.plan(plan) {
            Ok(plan) => Ok(plan.position.is_terminal()),
            Err(StoreError::NotFound { .. }) => Ok(true),
            Err(error) => Err(error.into()),
        }
    });
    look.await
}

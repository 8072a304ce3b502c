//! Events of a plan's journal as people and programs see them, read at once or followed.

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{Event, EventKind, StreamId};
use cleveragents_engine::journal::Tail;
use cleveragents_engine::journal::tail::POLL;
use cleveragents_engine::lifecycle::LifecycleError;
use cleveragents_engine::{StoreError, StoreHandle};
use serde_json::{Value, json};

use crate::bootstrap::AppContext;
use crate::failure::{CommandFailure, excerpt};
use crate::output::{OutputLines, ReaderState, Tone, ViewCell};

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
pub(super) fn cells(event: &Event) -> Vec<ViewCell> {
    let tone = match event.kind {
        EventKind::PlanErrored | EventKind::ErrorRecorded => Tone::Bad,
        EventKind::PlanApplied => Tone::Good,
        _ => Tone::Strong,
    };
    vec![
        event.stream_seq.to_string().into(),
        ViewCell::new(event.at.to_string(), Tone::Faint),
        ViewCell::new(event.kind.as_str(), tone),
        ViewCell::new(event.actor.clone(), Tone::Faint),
        summarize(event).into(),
    ]
}

/// The gist of the payload.
fn summarize(event: &Event) -> String {
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
    app: &AppContext<'_>,
    lines: &OutputLines,
    (plan, after): (PlanId, i64),
    mut show: impl FnMut(&Event) -> Result<ReaderState, CommandFailure>,
) -> Result<i64, CommandFailure> {
    let store = app.store().clone();
    let mut tail = Tail::of_stream(store.clone(), StreamId::Plan(plan), after);
    let mut last = after;
    app.block_on(async {
        loop {
            // Asked before reading: what comes after a finished plan is read below.
            let finished = is_finished(&store, plan).await?;
            let mut events = tail.read_available().await?;
            if events.is_empty() {
                if finished || lines.reader_state() == ReaderState::Closed {
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
                if show(event)? == ReaderState::Closed {
                    return Ok(last);
                }
            }
        }
    })
}

async fn is_finished(store: &StoreHandle, plan: PlanId) -> Result<bool, LifecycleError> {
    let look = store.read(move |tx| {
        let now = tx.now()?;
        let run = tx.run_of(plan)?;
        if run.is_some_and(|run| run.expires_at > now) {
            return Ok(false);
        }
        match tx.plan(plan) {
            Ok(plan) => Ok(plan.position.is_terminal()),
            Err(StoreError::NotFound { .. }) => Ok(true),
            Err(error) => Err(error.into()),
        }
    });
    look.await
}

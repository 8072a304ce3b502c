//! Output of journal events for people and programs, from a single read or while following.

use cleveragents_api::plan::log::JournalEvent;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{Event, EventKind, StreamId};
use cleveragents_engine::journal::Tail;
use cleveragents_engine::journal::tail::POLL;
use cleveragents_engine::lifecycle::LifecycleError;
use cleveragents_ports::{StoreError, StoreHandle};
use serde_json::{Value, json};

use super::event_summary::summarize;
use crate::bootstrap::AppContext;
use crate::failure::CommandFailure;
use crate::output::{OutputLines, ReaderState, Tone, ViewCell};

/// Returns an event for JSON output.
pub(super) fn data(event: &Event) -> Value {
    json!(JournalEvent::from(event))
}

pub(super) const HEADERS: [&str; 5] = ["seq", "at", "kind", "actor", "what"];

/// Returns an event as table cells.
pub(super) fn cells(event: &JournalEvent) -> Vec<ViewCell> {
    let tone = match EventKind::from(event.kind.as_str()) {
        EventKind::PlanErrored | EventKind::ErrorRecorded => Tone::Bad,
        EventKind::PlanApplied => Tone::Good,
        _ => Tone::Strong,
    };
    vec![
        event.plan_seq.to_string().into(),
        ViewCell::new(event.at.to_string(), Tone::Faint),
        ViewCell::new(event.kind.clone(), tone),
        ViewCell::new(event.actor.clone(), Tone::Faint),
        summarize(event).into(),
    ]
}

/// Follows a plan's journal and calls `show` for each event. Ends when the plan is finished and has
/// no live run, or when the reader closed the pipe. Returns the last sequence number.
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
            // Checked before reading, so that events appended before the plan finished are still
            // read below.
            let finished = is_finished(&store, plan).await?;
            let mut events = tail.read_available().await?;
            if events.is_empty() {
                if finished || lines.reader_state() == ReaderState::Closed {
                    return Ok(last);
                }
                // The timeout makes the loop check the reader and the run again.
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

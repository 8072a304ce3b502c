//! Output of journal events for people and programs, from a single read or while following.

use std::time::Duration;

use cleveragents_api::plan::log::JournalEvent;
use cleveragents_domain::EventKind;
use cleveragents_domain::id::PlanId;

use super::event_text::summarize;
use crate::bootstrap::AppContext;
use crate::failure::CommandFailure;
use crate::output::{OutputLines, ReaderState, Tone, ViewCell};

/// How much of an event is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventDetail {
    Short,
    /// With the exact time, the writer, the position over all plans and the hash.
    Full,
}

impl EventDetail {
    /// Returns the detail for `-v`.
    pub(super) fn from_verbosity(verbose: u8) -> Self {
        if verbose > 0 { Self::Full } else { Self::Short }
    }

    pub(super) fn headers(self) -> &'static [&'static str] {
        match self {
            Self::Short => &["seq", "at", "kind", "what"],
            Self::Full => &["seq", "at", "kind", "what", "actor", "journal seq", "hash"],
        }
    }

    /// Returns an event as table cells.
    pub(super) fn cells(self, event: &JournalEvent) -> Vec<ViewCell> {
        let tone = match EventKind::from(event.kind.as_str()) {
            EventKind::PlanErrored | EventKind::ErrorRecorded => Tone::Bad,
            EventKind::PlanApplied => Tone::Good,
            _ => Tone::Strong,
        };
        let at = match self {
            Self::Short => ViewCell::time(event.at, Tone::Faint),
            Self::Full => ViewCell::new(event.at.to_string(), Tone::Faint),
        };
        let mut cells = vec![
            event.plan_seq.to_string().into(),
            at,
            ViewCell::new(event.kind.clone(), tone),
            summarize(event).into(),
        ];
        if self == Self::Full {
            cells.extend([
                ViewCell::new(event.actor.clone(), Tone::Faint),
                ViewCell::new(event.seq.to_string(), Tone::Faint),
                ViewCell::new(event.hash.clone(), Tone::Faint),
            ]);
        }
        cells
    }
}

/// Interval at which a command that follows a plan checks whether its reader closed the pipe.
const READER_CHECK: Duration = Duration::from_millis(250);

/// Follows a plan's journal and calls `show` for each event. Ends when the plan is finished and has
/// no live run, or when the reader closed the pipe. Returns the last sequence number.
pub(super) fn follow(
    app: &AppContext<'_>,
    lines: &OutputLines,
    plan: PlanId,
    after: i64,
    mut show: impl FnMut(&JournalEvent) -> Result<ReaderState, CommandFailure>,
) -> Result<i64, CommandFailure> {
    let mut watch = app.app().watch(plan, after);
    let mut last = after;
    app.block_on(async {
        while let Some(events) = watch.events_until_finished(READER_CHECK).await? {
            for event in &events {
                last = event.plan_seq;
                if show(event)? == ReaderState::Closed {
                    return Ok(last);
                }
            }
            if events.is_empty() && lines.reader_state() == ReaderState::Closed {
                break;
            }
        }
        Ok(last)
    })
}

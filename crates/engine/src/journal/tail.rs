//! Tails: followers of the journal that see each event exactly once.
//!
//! A tail pulls: it keeps its own position and reads on from it, woken by hints and, because hints
//! may be lost, by polling. A writer never waits for a tail.

use std::time::Duration;

use cleveragents_domain::{Event, StreamId};
use tokio::sync::watch;

use cleveragents_ports::{Cursor, Result, StoreHandle};

/// Poll interval, in case a hint was lost.
pub const POLL: Duration = Duration::from_millis(250);
const BATCH: u32 = 512;

#[derive(Debug, Clone, Copy)]
enum TailPosition {
    Stream(StreamId, i64),
    All(Cursor),
}

#[derive(Debug)]
pub struct Tail {
    store: StoreHandle,
    hints: watch::Receiver<u64>,
    position: TailPosition,
}

impl Tail {
    /// Follows one stream, starting after the event `after` (0: from the beginning).
    pub fn of_stream(store: StoreHandle, stream: StreamId, after: i64) -> Self {
        Self::at(store, TailPosition::Stream(stream, after))
    }

    /// Follows all streams, starting after `after`.
    pub fn of_all(store: StoreHandle, after: Cursor) -> Self {
        Self::at(store, TailPosition::All(after))
    }

    fn at(store: StoreHandle, position: TailPosition) -> Self {
        Self {
            hints: store.watch_commits(),
            store,
            position,
        }
    }

    /// Returns the next events, at least one; waits until there are some. Cancellation-safe.
    pub async fn next(&mut self) -> Result<Vec<Event>> {
        loop {
            // Mark hints as seen before reading, so that a commit after the read wakes the wait
            // below.
            self.hints.mark_unchanged();
            let events = self.read_available().await?;
            if !events.is_empty() {
                return Ok(events);
            }
            // A closed channel only means that there are no more hints; keep polling.
            if let Ok(Err(_)) = tokio::time::timeout(POLL, self.hints.changed()).await {
                tokio::time::sleep(POLL).await;
            }
        }
    }

    /// Returns the events available now, perhaps none.
    pub async fn read_available(&mut self) -> Result<Vec<Event>> {
        match self.position {
            TailPosition::Stream(stream, after) => {
                let events = self
                    .store
                    .read(move |tx| tx.events(stream, after, BATCH))
                    .await?;
                if let Some(last) = events.last() {
                    self.position = TailPosition::Stream(stream, last.stream_seq);
                }
                Ok(events)
            }
            TailPosition::All(after) => {
                let events = self
                    .store
                    .read(move |tx| tx.all_events(after, BATCH))
                    .await?;
                if let Some((cursor, _)) = events.last() {
                    self.position = TailPosition::All(*cursor);
                }
                Ok(events.into_iter().map(|(_, event)| event).collect())
            }
        }
    }
}

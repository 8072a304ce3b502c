//! Watching a plan: its events, and its progress between them.

use std::time::Duration;

use cleveragents_api::WatchItem;
use cleveragents_api::plan::log::JournalEvent;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::progress::Progress;
use cleveragents_domain::{Event, StreamId};
use cleveragents_engine::journal::Tail;
use cleveragents_ports::{StoreError, StoreHandle};

use crate::app::App;
use crate::progress::ProgressReceiver;

/// A watch of one plan. Dropping it changes nothing for the plan.
#[derive(Debug)]
pub struct PlanWatch {
    store: StoreHandle,
    plan: PlanId,
    tail: Tail,
    progress: ProgressReceiver,
}

impl App {
    /// Watches a plan, starting after its event `from_seq` (0: from the beginning).
    pub fn watch(&self, plan: PlanId, from_seq: i64) -> PlanWatch {
        PlanWatch {
            store: self.services.store().clone(),
            plan,
            tail: Tail::of_stream(
                self.services.store().clone(),
                StreamId::Plan(plan),
                from_seq,
            ),
            progress: self.services.deps().progress.subscribe(plan),
        }
    }

    /// Returns the number of the plan's newest event; 0 if there is none.
    pub async fn newest_event(&self, plan: PlanId) -> Result<i64, StoreError> {
        let stream = StreamId::Plan(plan);
        let head = self
            .services
            .store()
            .read(move |tx| tx.head(stream))
            .await?;
        Ok(head.stream_seq)
    }
}

impl PlanWatch {
    /// Waits for the next item. Progress that is there is returned before the events that follow
    /// it. Cancellation-safe.
    pub async fn next(&mut self) -> Result<WatchItem, StoreError> {
        tokio::select! {
            // A model's answer is committed after its text was reported.
            biased;
            progress = self.progress.next() => Ok(WatchItem::Progress { progress }),
            events = self.tail.next() => Ok(WatchItem::Events { events: convert(&events?) }),
        }
    }

    /// Waits for further events, at most for `timeout`; returns none if there are none by then.
    /// Returns `None` when the plan is finished, no process runs it, and all events were returned.
    pub async fn events_until_finished(
        &mut self,
        timeout: Duration,
    ) -> Result<Option<Vec<JournalEvent>>, StoreError> {
        // Checked before reading, so that events appended before the plan finished are still read.
        let finished = self.is_finished().await?;
        let events = self.tail.read_available().await?;
        if !events.is_empty() {
            return Ok(Some(convert(&events)));
        }
        if finished {
            return Ok(None);
        }
        match tokio::time::timeout(timeout, self.tail.next()).await {
            Ok(events) => Ok(Some(convert(&events?))),
            Err(_) => Ok(Some(Vec::new())),
        }
    }

    async fn is_finished(&self) -> Result<bool, StoreError> {
        let plan = self.plan;
        let look = self.store.read(move |tx| {
            let now = tx.now()?;
            let run = tx.run_of(plan)?;
            if run.is_some_and(|run| run.expires_at > now) {
                return Ok(false);
            }
            match tx.plan(plan) {
                Ok(plan) => Ok(plan.position.is_terminal()),
                Err(StoreError::NotFound { .. }) => Ok(true),
                Err(error) => Err(error),
            }
        });
        look.await
    }

    /// Returns progress that is there now.
    pub fn available_progress(&mut self) -> Option<Progress> {
        self.progress.available()
    }

    /// Returns all events that are there now, perhaps none.
    pub async fn available_events(&mut self) -> Result<Vec<JournalEvent>, StoreError> {
        let mut events = Vec::new();
        // One read returns a limited number.
        loop {
            let more = self.tail.read_available().await?;
            if more.is_empty() {
                return Ok(events);
            }
            events.extend(convert(&more));
        }
    }
}

fn convert(events: &[Event]) -> Vec<JournalEvent> {
    events.iter().map(JournalEvent::from).collect()
}

//! A plan's time budget: the work time of all its owners counts together.

use std::time::Duration;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{ErrorCategory, Event, EventKind, StreamId, Timestamp, WaitReason};
use tokio::time::Instant;

use super::error::Result;
use super::executor::ExecuteOutcome;
use super::plan_run::PlanRun;
use crate::error_history::NewErrorRecord;
use cleveragents_ports::{StoreHandle, Transaction};

/// Number of events read per page.
const PAGE: u32 = 1000;

impl PlanRun {
    /// Returns when the plan's time budget ends for this owner, or `None` without a time budget.
    pub(super) async fn deadline(&self) -> Result<Option<Instant>> {
        let Some(seconds) = self.plan.brief.budget.wall else {
            return Ok(None);
        };
        let worked = time_worked(&self.services.store, self.id()).await?;
        let left = Duration::from_secs(seconds).saturating_sub(worked);
        Ok(self.lease.since().checked_add(left))
    }

    /// Makes the plan wait for a larger budget, because its time is used up.
    pub(super) async fn wait_for_budget(&mut self) -> Result<ExecuteOutcome> {
        let seconds = self.plan.brief.budget.wall.unwrap_or_default();
        let reason = format!("the plan's budget of {seconds} seconds is used up");
        let new_error = NewErrorRecord::new(ErrorCategory::Budget, &reason);
        self.record_error(new_error).await?;
        let waiting = WaitReason::Budget;
        self.plan = self
            .services
            .lifecycle
            .as_owner(&self.lease)
            .wait(waiting)
            .await?;
        Ok(ExecuteOutcome::Waiting {
            plan: self.plan.clone(),
            waiting,
            reason,
        })
    }
}

/// Returns how long earlier owners worked on the plan.
async fn time_worked(store: &StoreHandle, plan: PlanId) -> Result<Duration> {
    let mut timer = WorkTimer::default();
    let mut after = 0;
    loop {
        let read = move |tx: &mut dyn Transaction| tx.events(StreamId::Plan(plan), after, PAGE);
        let events: Vec<Event> = store.read(read).await?;
        let Some(last) = events.last() else {
            return Ok(timer.total);
        };
        after = last.stream_seq;
        events.iter().for_each(|event| timer.record_event(event));
    }
}

/// Adds up the work time of each owner from the journal. An owner that died counts until its last
/// event.
#[derive(Debug, Default)]
struct WorkTimer {
    total: Duration,
    current: Option<WorkInterval>,
}

#[derive(Debug)]
struct WorkInterval {
    owner: String,
    since: Timestamp,
}

impl WorkTimer {
    fn record_event(&mut self, event: &Event) {
        match (&event.kind, &mut self.current) {
            (EventKind::RunClaimed, now) => {
                *now = Some(WorkInterval {
                    owner: event.actor.clone(),
                    since: event.at,
                });
            }
            (EventKind::RunEvicted, now) => *now = None,
            (kind, Some(interval)) if interval.owner == event.actor => {
                let micros = event
                    .at
                    .as_micros()
                    .saturating_sub(interval.since.as_micros());
                self.total += Duration::from_micros(micros.max(0).unsigned_abs());
                interval.since = event.at;
                if *kind == EventKind::RunReleased {
                    self.current = None;
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: EventKind, actor: &str, second: i64) -> Event {
        Event {
            seq: second,
            stream: StreamId::System,
            stream_seq: second,
            kind,
            v: 1,
            at: Timestamp::from_micros(second * 1_000_000),
            actor: actor.to_owned(),
            payload: None,
            payload_hash: String::new(),
            prev_hash: String::new(),
            hash: String::new(),
        }
    }

    #[test]
    fn a_dead_owner_worked_until_its_last_event() {
        let mut timer = WorkTimer::default();
        for (kind, actor, second) in [
            (EventKind::PlanCreated, "eva", 0),
            (EventKind::RunClaimed, "one", 100),
            (EventKind::ToolInvoked, "one", 110),
            // The owner died; a user sends a message an hour later.
            (EventKind::MessageSent, "eva", 3710),
            (EventKind::RunClaimed, "two", 3800),
            (EventKind::ToolInvoked, "two", 3801),
            (EventKind::RunReleased, "two", 3805),
            // The plan has no owner here.
            (EventKind::PlanWaiting, "two", 7000),
            (EventKind::RunClaimed, "three", 9000),
        ] {
            timer.record_event(&event(kind, actor, second));
        }
        assert_eq!(timer.total, Duration::from_secs(15));
    }
}

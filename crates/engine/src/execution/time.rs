//! A plan's budget of time: what its owners worked on it, all together, is what is used up.

use std::time::Duration;

use cleveragents_domain::id::PlanId;
use cleveragents_domain::{ErrorCategory, Event, EventKind, Plan, StreamId, Timestamp, Waiting};
use tokio::time::Instant;

use super::error::Result;
use super::executor::{Executed, Executor};
use crate::recovery::Trouble;
use crate::runs::RunLease;

/// So many events are read at once.
const PAGE: u32 = 1000;

impl Executor {
    /// When the plan's time is up for this owner, if it has a budget of time.
    pub(super) async fn deadline(&self, run: &RunLease, plan: &Plan) -> Result<Option<Instant>> {
        let Some(seconds) = plan.brief.budget.wall else {
            return Ok(None);
        };
        let worked = self.worked(plan.identity.plan_id).await?;
        let left = Duration::from_secs(seconds).saturating_sub(worked);
        Ok(run.since().checked_add(left))
    }

    /// How long the plan was worked on by those who owned it before.
    async fn worked(&self, plan: PlanId) -> Result<Duration> {
        let mut shifts = Shifts::default();
        let mut after = 0;
        loop {
            let read = move |unit: &mut dyn crate::ports::Unit| {
                unit.events(StreamId::Plan(plan), after, PAGE)
            };
            let events: Vec<Event> = self.store.read(read).await?;
            let Some(last) = events.last() else {
                return Ok(shifts.over);
            };
            after = last.stream_seq;
            events.iter().for_each(|event| shifts.take(event));
        }
    }

    /// The plan waits for a larger budget, because its time is up.
    pub(super) async fn out_of_time(&self, run: &RunLease, plan: &Plan) -> Result<Executed> {
        let seconds = plan.brief.budget.wall.unwrap_or_default();
        let reason = format!("the plan's budget of {seconds} seconds is used up");
        let trouble = Trouble::plain(ErrorCategory::Budget, &reason);
        self.record_trouble(run, trouble).await?;
        let waiting = Waiting::Budget;
        let plan = self.lifecycle.wait(run, waiting).await?;
        Ok(Executed::Waits {
            plan,
            waiting,
            reason,
        })
    }
}

/// Adds up from the journal how long each owner was at work. One that died was so until the last
/// thing it put on record.
#[derive(Debug, Default)]
struct Shifts {
    over: Duration,
    now: Option<Shift>,
}

#[derive(Debug)]
struct Shift {
    owner: String,
    began: Timestamp,
}

impl Shifts {
    fn take(&mut self, event: &Event) {
        match (&event.kind, &mut self.now) {
            (EventKind::RunClaimed, now) => {
                *now = Some(Shift {
                    owner: event.actor.clone(),
                    began: event.at,
                });
            }
            (EventKind::RunEvicted, now) => *now = None,
            (kind, Some(shift)) if shift.owner == event.actor => {
                let micros = event.at.as_micros().saturating_sub(shift.began.as_micros());
                self.over += Duration::from_micros(micros.max(0).unsigned_abs());
                shift.began = event.at;
                if *kind == EventKind::RunReleased {
                    self.now = None;
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
    fn only_the_time_of_owners_counts_and_a_dead_one_worked_until_its_last_word() {
        let mut shifts = Shifts::default();
        for (kind, actor, second) in [
            (EventKind::PlanCreated, "eva", 0),
            (EventKind::RunClaimed, "one", 100),
            (EventKind::ToolInvoked, "one", 110),
            // It died; somebody says something an hour later.
            (EventKind::MessageSent, "eva", 3710),
            (EventKind::RunClaimed, "two", 3800),
            (EventKind::ToolInvoked, "two", 3801),
            (EventKind::RunReleased, "two", 3805),
            // Nobody has it now.
            (EventKind::PlanWaiting, "two", 7000),
            (EventKind::RunClaimed, "three", 9000),
        ] {
            shifts.take(&event(kind, actor, second));
        }
        assert_eq!(shifts.over, Duration::from_secs(15));
    }
}

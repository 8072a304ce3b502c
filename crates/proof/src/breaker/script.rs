//! What callers do to a breaker, as data, so that the breaker and the reference can both do it.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::time::Duration;

use cleveragents_domain::Timestamp;
use cleveragents_engine::breaker::{
    Admission, BreakerSettings, CircuitBreaker, CircuitState, Failure, Lock, Permit,
};

pub const NAME: &str = "local/model";
pub const THRESHOLD: NonZeroU32 = NonZeroU32::MIN.saturating_add(2);

/// One verb; the numbers are seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Admit(i64),
    /// The caller's oldest permit succeeds; nothing happens if it has none.
    Success(i64),
    Failure(i64),
    Drop,
    RecordSuccess(i64),
    RecordFailure(i64),
    IsOpen(i64),
    Reset(i64),
}

/// What a verb answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    Permit,
    Open { until: i64 },
    Tripped,
    Counted(u64),
    IsOpen(bool),
    Done,
    NoPermit,
}

/// How a circuit stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Standing {
    pub state: State,
    pub consecutive: u64,
    pub successes: u64,
    pub failures: u64,
    pub trips: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    Closed,
    Open { until: i64 },
    HalfOpen,
}

pub fn settings(cool_down: i64) -> BreakerSettings {
    BreakerSettings {
        threshold: THRESHOLD,
        cool_down: Duration::from_secs(cool_down.unsigned_abs()),
    }
}

pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

fn seconds(time: Timestamp) -> i64 {
    time.as_micros() / 1_000_000
}

/// One who calls, with the permits it holds.
#[derive(Debug)]
pub struct Caller<L: Lock> {
    permits: VecDeque<Permit<L>>,
}

impl<L: Lock> Default for Caller<L> {
    fn default() -> Self {
        Self::new()
    }
}

impl<L: Lock> Caller<L> {
    pub fn new() -> Self {
        Self {
            permits: VecDeque::new(),
        }
    }

    pub fn play(&mut self, breaker: &CircuitBreaker<L>, verb: Verb) -> Answer {
        match verb {
            Verb::Admit(now) => match breaker.admit(NAME, at(now)) {
                Admission::Permit(permit) => {
                    self.permits.push_back(permit);
                    Answer::Permit
                }
                Admission::Open { until } => Answer::Open {
                    until: seconds(until),
                },
            },
            Verb::Success(now) => self.told(|permit| {
                permit.success(at(now));
                Answer::Done
            }),
            Verb::Failure(now) => self.told(|permit| answer(permit.failure(at(now)))),
            Verb::Drop => self.told(|permit| {
                drop(permit);
                Answer::Done
            }),
            Verb::RecordSuccess(now) => {
                breaker.record_success(NAME, at(now));
                Answer::Done
            }
            Verb::RecordFailure(now) => answer(breaker.record_failure(NAME, at(now))),
            Verb::IsOpen(now) => Answer::IsOpen(breaker.is_open(NAME, at(now))),
            Verb::Reset(now) => {
                breaker.reset(NAME, at(now));
                Answer::Done
            }
        }
    }

    fn told(&mut self, tell: impl FnOnce(Permit<L>) -> Answer) -> Answer {
        match self.permits.pop_front() {
            Some(permit) => tell(permit),
            None => Answer::NoPermit,
        }
    }
}

fn answer(failure: Failure) -> Answer {
    match failure {
        Failure::Tripped => Answer::Tripped,
        Failure::Counted(number) => Answer::Counted(number),
    }
}

pub fn standing<L: Lock>(breaker: &CircuitBreaker<L>) -> Standing {
    let now = breaker.snapshot(NAME);
    Standing {
        state: match now.state {
            CircuitState::Closed => State::Closed,
            CircuitState::Open { until } => State::Open {
                until: seconds(until),
            },
            CircuitState::HalfOpen => State::HalfOpen,
        },
        consecutive: now.consecutive_failures,
        successes: now.successes,
        failures: now.failures,
        trips: now.trips,
    }
}

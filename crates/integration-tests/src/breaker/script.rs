//! Calls of a breaker as data, so that the breaker and the reference can both run them.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::time::Duration;

use cleveragents_domain::Timestamp;
use cleveragents_engine::breaker::{
    Admission, BreakerLock, BreakerSettings, CircuitBreaker, CircuitState, FailureOutcome, Permit,
};

pub const NAME: &str = "local/model";
pub const THRESHOLD: NonZeroU32 = NonZeroU32::MIN.saturating_add(2);

/// One call; the numbers are seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerCall {
    Admit(i64),
    /// The caller's oldest permit succeeds; no effect if it has none.
    Success(i64),
    Failure(i64),
    Drop,
    RecordSuccess(i64),
    RecordFailure(i64),
    IsOpen(i64),
    Reset(i64),
}

/// The answer to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BreakerAnswer {
    Permit,
    Open { until: i64 },
    Tripped,
    Counted(u64),
    IsOpen(bool),
    Done,
    NoPermit,
}

/// The state of a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReferenceSnapshot {
    pub state: ReferenceState,
    pub consecutive: u64,
    pub successes: u64,
    pub failures: u64,
    pub trips: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReferenceState {
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

/// A caller with the permits it holds.
#[derive(Debug)]
pub struct BreakerCaller<L: BreakerLock> {
    permits: VecDeque<Permit<L>>,
}

impl<L: BreakerLock> Default for BreakerCaller<L> {
    fn default() -> Self {
        Self::new()
    }
}

impl<L: BreakerLock> BreakerCaller<L> {
    pub fn new() -> Self {
        Self {
            permits: VecDeque::new(),
        }
    }

    pub fn perform(&mut self, breaker: &CircuitBreaker<L>, verb: BreakerCall) -> BreakerAnswer {
        match verb {
            BreakerCall::Admit(now) => match breaker.admit(NAME, at(now)) {
                Admission::Permit(permit) => {
                    self.permits.push_back(permit);
                    BreakerAnswer::Permit
                }
                Admission::Open { until } => BreakerAnswer::Open {
                    until: seconds(until),
                },
            },
            BreakerCall::Success(now) => self.with_permit(|permit| {
                permit.record_success(at(now));
                BreakerAnswer::Done
            }),
            BreakerCall::Failure(now) => {
                self.with_permit(|permit| failure_answer(permit.record_failure(at(now))))
            }
            BreakerCall::Drop => self.with_permit(|permit| {
                drop(permit);
                BreakerAnswer::Done
            }),
            BreakerCall::RecordSuccess(now) => {
                breaker.record_success(NAME, at(now));
                BreakerAnswer::Done
            }
            BreakerCall::RecordFailure(now) => {
                failure_answer(breaker.record_failure(NAME, at(now)))
            }
            BreakerCall::IsOpen(now) => BreakerAnswer::IsOpen(breaker.is_open(NAME, at(now))),
            BreakerCall::Reset(now) => {
                breaker.reset(NAME, at(now));
                BreakerAnswer::Done
            }
        }
    }

    fn with_permit(&mut self, work: impl FnOnce(Permit<L>) -> BreakerAnswer) -> BreakerAnswer {
        match self.permits.pop_front() {
            Some(permit) => work(permit),
            None => BreakerAnswer::NoPermit,
        }
    }
}

fn failure_answer(failure: FailureOutcome) -> BreakerAnswer {
    match failure {
        FailureOutcome::Tripped => BreakerAnswer::Tripped,
        FailureOutcome::Counted(number) => BreakerAnswer::Counted(number),
    }
}

pub fn circuit_snapshot<L: BreakerLock>(breaker: &CircuitBreaker<L>) -> ReferenceSnapshot {
    let now = breaker.snapshot(NAME);
    ReferenceSnapshot {
        state: match now.state {
            CircuitState::Closed => ReferenceState::Closed,
            CircuitState::Open { until } => ReferenceState::Open {
                until: seconds(until),
            },
            CircuitState::HalfOpen => ReferenceState::HalfOpen,
        },
        consecutive: now.consecutive_failures,
        successes: now.successes,
        failures: now.failures,
        trips: now.trips,
    }
}

//! One circuit: its counters and transitions. It knows no lock and no clock; the caller holds the
//! lock and passes the time.

use cleveragents_domain::Timestamp;

use super::{BreakerSettings, CircuitSnapshot, CircuitState, FailureOutcome, Transition};

/// State of one circuit.
#[derive(Debug, Clone, Default)]
pub(super) struct Circuit {
    state: CircuitInnerState,
    /// Number of state changes. A permit is valid only in the generation it was given in.
    generation: u64,
    /// Failures since the last success or reset. Below the threshold while closed, at or above it
    /// otherwise.
    consecutive: u64,
    successes: u64,
    failures: u64,
    trips: u64,
}

#[derive(Debug, Clone, Copy, Default)]
enum CircuitInnerState {
    #[default]
    Closed,
    Open {
        until: Timestamp,
    },
    HalfOpen(ProbeState),
}

/// Whether the single trial call of a half-open circuit is running.
#[derive(Debug, Clone, Copy)]
enum ProbeState {
    InFlight,
    Available,
}

/// Outcome of asking for admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AdmitOutcome {
    /// A call in this generation may be made.
    Admitted {
        generation: u64,
    },
    Rejected {
        until: Timestamp,
    },
}

/// The result of an operation, and the transition it caused.
pub(super) type CircuitEffect<T> = (T, Option<Transition>);

impl Circuit {
    pub(super) fn admit(
        &mut self,
        settings: &BreakerSettings,
        now: Timestamp,
    ) -> CircuitEffect<AdmitOutcome> {
        let latest = now.after(settings.cool_down);
        match self.state {
            CircuitInnerState::Closed => (self.admitted_outcome(), None),
            CircuitInnerState::Open { until } if now < until => {
                // If the clock was set back, the circuit must not stay open for longer than one
                // cool-down.
                let until = until.min(latest);
                self.state = CircuitInnerState::Open { until };
                (AdmitOutcome::Rejected { until }, None)
            }
            CircuitInnerState::Open { .. } => {
                let transition = self.enter(CircuitInnerState::HalfOpen(ProbeState::InFlight), now);
                (self.admitted_outcome(), transition)
            }
            CircuitInnerState::HalfOpen(ProbeState::Available) => {
                self.state = CircuitInnerState::HalfOpen(ProbeState::InFlight);
                (self.admitted_outcome(), None)
            }
            CircuitInnerState::HalfOpen(ProbeState::InFlight) => {
                (AdmitOutcome::Rejected { until: latest }, None)
            }
        }
    }

    /// Records a success of a call admitted in `generation`, or of one made without a permit.
    pub(super) fn succeed(&mut self, generation: Option<u64>, now: Timestamp) -> CircuitEffect<()> {
        self.successes += 1;
        if self.is_stale(generation) {
            return ((), None);
        }
        self.consecutive = 0;
        let transition = match self.state {
            CircuitInnerState::Closed => None,
            CircuitInnerState::Open { .. } | CircuitInnerState::HalfOpen(_) => {
                self.enter(CircuitInnerState::Closed, now)
            }
        };
        ((), transition)
    }

    /// Records a failure of a call admitted in `generation`, or of one made without a permit.
    pub(super) fn fail(
        &mut self,
        generation: Option<u64>,
        settings: &BreakerSettings,
        now: Timestamp,
    ) -> CircuitEffect<FailureOutcome> {
        self.failures += 1;
        if self.is_stale(generation) {
            return (FailureOutcome::Counted(self.consecutive), None);
        }
        self.consecutive += 1;
        let trips = match self.state {
            CircuitInnerState::Closed => self.consecutive >= u64::from(settings.threshold.get()),
            CircuitInnerState::HalfOpen(_) => true,
            CircuitInnerState::Open { until } => now >= until,
        };
        if !trips {
            return (FailureOutcome::Counted(self.consecutive), None);
        }
        self.trips += 1;
        let until = now.after(settings.cool_down);
        (
            FailureOutcome::Tripped,
            self.enter(CircuitInnerState::Open { until }, now),
        )
    }

    /// Handles a dropped permit: if it was the probe, another probe may be made.
    pub(super) fn abandon(&mut self, generation: u64) {
        if !self.is_stale(Some(generation)) && matches!(self.state, CircuitInnerState::HalfOpen(_))
        {
            self.state = CircuitInnerState::HalfOpen(ProbeState::Available);
        }
    }

    /// Closes the circuit and resets the consecutive failures. Running calls belong to an old
    /// generation afterwards.
    pub(super) fn reset(&mut self, now: Timestamp) -> CircuitEffect<()> {
        self.consecutive = 0;
        ((), self.enter(CircuitInnerState::Closed, now))
    }

    pub(super) fn is_open(&self, now: Timestamp) -> bool {
        match self.state {
            CircuitInnerState::Closed | CircuitInnerState::HalfOpen(ProbeState::Available) => false,
            CircuitInnerState::Open { until } => now < until,
            CircuitInnerState::HalfOpen(ProbeState::InFlight) => true,
        }
    }

    pub(super) fn snapshot(&self, name: &str) -> CircuitSnapshot {
        CircuitSnapshot {
            name: name.to_owned(),
            state: self.state.circuit_state(),
            consecutive_failures: self.consecutive,
            successes: self.successes,
            failures: self.failures,
            trips: self.trips,
        }
    }

    fn admitted_outcome(&self) -> AdmitOutcome {
        AdmitOutcome::Admitted {
            generation: self.generation,
        }
    }

    fn is_stale(&self, generation: Option<u64>) -> bool {
        generation.is_some_and(|generation| generation != self.generation)
    }

    /// Starts a new generation. Returns no transition if the circuit was closed and stays closed.
    fn enter(&mut self, state: CircuitInnerState, at: Timestamp) -> Option<Transition> {
        let from = self.state.circuit_state();
        let to = state.circuit_state();
        self.state = state;
        self.generation += 1;
        let stays_closed = from == CircuitState::Closed && to == CircuitState::Closed;
        (!stays_closed).then_some(Transition {
            generation: self.generation,
            from,
            to,
            at,
        })
    }
}

impl CircuitInnerState {
    fn circuit_state(self) -> CircuitState {
        match self {
            Self::Closed => CircuitState::Closed,
            Self::Open { until } => CircuitState::Open { until },
            Self::HalfOpen(_) => CircuitState::HalfOpen,
        }
    }
}

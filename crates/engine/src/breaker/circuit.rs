//! One circuit: what it counts and which moves it makes. It knows no lock and no clock; whoever
//! calls it holds the lock and passes the time.

use cleveragents_domain::Timestamp;

use super::{BreakerSettings, CircuitState, Failure, Snapshot, Transition};

/// How one name stands.
#[derive(Debug, Clone, Default)]
pub(super) struct Circuit {
    state: State,
    /// How often the state was left; a permit is valid for the one it was given in.
    generation: u64,
    /// Failures since the last success or reset. Below the threshold while closed, at or above it
    /// otherwise.
    consecutive: u64,
    successes: u64,
    failures: u64,
    trips: u64,
}

#[derive(Debug, Clone, Copy, Default)]
enum State {
    #[default]
    Closed,
    Open {
        until: Timestamp,
    },
    HalfOpen(Probe),
}

/// Whether the one trial call of a half-open circuit is under way.
#[derive(Debug, Clone, Copy)]
enum Probe {
    Out,
    Free,
}

/// What a caller who asks is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ticket {
    /// A call of this generation may be made.
    Go {
        generation: u64,
    },
    Wait {
        until: Timestamp,
    },
}

/// What a verb answers, and the move that came of it.
pub(super) type Effect<T> = (T, Option<Transition>);

impl Circuit {
    pub(super) fn admit(&mut self, settings: &BreakerSettings, now: Timestamp) -> Effect<Ticket> {
        let latest = now.after(settings.cool_down);
        match self.state {
            State::Closed => (self.ticket(), None),
            State::Open { until } if now < until => {
                // A clock that was set back must not keep it open for longer than a cool-down.
                let until = until.min(latest);
                self.state = State::Open { until };
                (Ticket::Wait { until }, None)
            }
            State::Open { .. } => {
                let moved = self.enter(State::HalfOpen(Probe::Out), now);
                (self.ticket(), moved)
            }
            State::HalfOpen(Probe::Free) => {
                self.state = State::HalfOpen(Probe::Out);
                (self.ticket(), None)
            }
            State::HalfOpen(Probe::Out) => (Ticket::Wait { until: latest }, None),
        }
    }

    /// A success of a call that was admitted in `generation`, or of one nobody admitted.
    pub(super) fn succeed(&mut self, generation: Option<u64>, now: Timestamp) -> Effect<()> {
        self.successes += 1;
        if self.is_past(generation) {
            return ((), None);
        }
        self.consecutive = 0;
        let moved = match self.state {
            State::Closed => None,
            State::Open { .. } | State::HalfOpen(_) => self.enter(State::Closed, now),
        };
        ((), moved)
    }

    /// A failure of a call that was admitted in `generation`, or of one nobody admitted.
    pub(super) fn fail(
        &mut self,
        generation: Option<u64>,
        settings: &BreakerSettings,
        now: Timestamp,
    ) -> Effect<Failure> {
        self.failures += 1;
        if self.is_past(generation) {
            return (Failure::Counted(self.consecutive), None);
        }
        self.consecutive += 1;
        let trips = match self.state {
            State::Closed => self.consecutive >= u64::from(settings.threshold.get()),
            State::HalfOpen(_) => true,
            State::Open { until } => now >= until,
        };
        if !trips {
            return (Failure::Counted(self.consecutive), None);
        }
        self.trips += 1;
        let until = now.after(settings.cool_down);
        (Failure::Tripped, self.enter(State::Open { until }, now))
    }

    /// The call of a permit came to nothing: if it was the probe, another may be made.
    pub(super) fn abandon(&mut self, generation: u64) {
        if !self.is_past(Some(generation)) && matches!(self.state, State::HalfOpen(_)) {
            self.state = State::HalfOpen(Probe::Free);
        }
    }

    /// Closes the circuit and forgets the failures in a row; what is under way belongs to the past.
    pub(super) fn reset(&mut self, now: Timestamp) -> Effect<()> {
        self.consecutive = 0;
        ((), self.enter(State::Closed, now))
    }

    pub(super) fn is_open(&self, now: Timestamp) -> bool {
        match self.state {
            State::Closed | State::HalfOpen(Probe::Free) => false,
            State::Open { until } => now < until,
            State::HalfOpen(Probe::Out) => true,
        }
    }

    pub(super) fn snapshot(&self, name: &str) -> Snapshot {
        Snapshot {
            name: name.to_owned(),
            state: self.state.shown(),
            consecutive_failures: self.consecutive,
            successes: self.successes,
            failures: self.failures,
            trips: self.trips,
        }
    }

    fn ticket(&self) -> Ticket {
        Ticket::Go {
            generation: self.generation,
        }
    }

    fn is_past(&self, generation: Option<u64>) -> bool {
        generation.is_some_and(|generation| generation != self.generation)
    }

    /// Begins a new generation; nothing is told of a circuit that was closed and stays so.
    fn enter(&mut self, state: State, at: Timestamp) -> Option<Transition> {
        let from = self.state.shown();
        let to = state.shown();
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

impl State {
    fn shown(self) -> CircuitState {
        match self {
            Self::Closed => CircuitState::Closed,
            Self::Open { until } => CircuitState::Open { until },
            Self::HalfOpen(_) => CircuitState::HalfOpen,
        }
    }
}

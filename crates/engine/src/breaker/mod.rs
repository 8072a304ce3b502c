//! The circuit breaker: who keeps failing is left alone for a while, whoever calls it.
//!
//! One type for every caller, models and strategies alike. Read [`CircuitBreaker`] for what it
//! promises, `circuit.rs` for the moves of one circuit, `lock.rs` for how model checkers get in.

mod circuit;
mod lock;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::Timestamp;
use serde::Serialize;

use circuit::{AdmitOutcome, Circuit, CircuitEffect};
pub use lock::{BreakerLock, StdLock};

/// When a circuit opens, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerSettings {
    /// How many failures in a row open it.
    pub threshold: NonZeroU32,
    /// How long it stays open before one call is let through to try.
    pub cool_down: Duration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self {
            threshold: NonZeroU32::MIN.saturating_add(2),
            cool_down: Duration::from_secs(30),
        }
    }
}

/// Circuits by name, shared by everybody who calls what the names stand for. Clones are handles
/// of the same circuits.
///
/// A circuit is *closed* (calls are admitted) until as many failures in a row as the threshold are
/// told; then it is *open* (nobody is admitted). The first to ask when the cool-down is over makes
/// it *half-open* and is its probe: if the probe succeeds the circuit is closed, if it fails it is
/// open for another cool-down.
///
/// # What is guaranteed
///
/// Every verb takes effect at one moment between its call and its answer, under one lock for all
/// names, as if the verbs of all threads had been called one after the other. In that order:
///
/// - Successes and failures are counted exactly, each told one once, whatever the state.
/// - A circuit is closed exactly while fewer failures in a row than the threshold are counted.
///   "In a row" means in the order in which results are told, not in which calls began.
/// - Each opening is seen as [`FailureOutcome::Tripped`] by exactly one caller, the one whose failure it
///   was, and is one of [`CircuitSnapshot::trips`].
/// - While a circuit is half-open at most one permit of that generation is out. Every change of
///   state and every reset begins a generation; the result of a permit of an older one is counted
///   and changes nothing else, so a call that was begun before the circuit opened can neither close
///   nor reopen it.
/// - A permit that is dropped untold, by a panic too, counts nothing; if it was the probe, the next
///   to ask is the probe.
/// - An open circuit turns nobody away for longer than one cool-down from when it is first asked,
///   even if the clock was set back.
/// - The lock is held for one verb on memory; no foreign code runs under it, so no verb waits for
///   an observer and an observer may call the breaker.
///
/// # What is not
///
/// - A permit is leave to call, not a reservation: calls admitted before a circuit opened go on.
/// - [`record_success`](Self::record_success) and [`record_failure`](Self::record_failure) name no
///   generation. They speak of the circuit as it stands when they are told: a success closes it
///   even if the call began long ago. Who can hold a permit should.
/// - [`is_open`](Self::is_open) may be out of date when its answer arrives. Nobody becomes the
///   probe by it; only [`admit`](Self::admit) decides and takes in one.
/// - A permit that is kept for ever keeps its probe: whoever calls sets a deadline and drops it.
/// - Observers hear of every change once, from the thread that made it, but two changes may be
///   told in either order; [`Transition::generation`] says which came first.
/// - Times are the callers'. The breaker reads no clock, orders nothing by time and wakes nobody.
/// - Circuits live as long as the breaker and in this process only; names are never forgotten, so
///   they must be of a kind there are few of.
pub struct CircuitBreaker<L: BreakerLock = StdLock> {
    shared: Arc<SharedCircuits<L>>,
}

struct SharedCircuits<L: BreakerLock> {
    settings: BreakerSettings,
    observers: Vec<Arc<dyn BreakerObserver>>,
    circuits: L::Of<BTreeMap<String, Circuit>>,
}

/// Who wants to know when a circuit changes its state.
pub trait BreakerObserver: fmt::Debug + Send + Sync {
    /// Called after the change, without any lock, by the thread whose verb made it.
    fn on_transition(&self, name: &str, transition: &Transition);
}

/// The answer to who wants to call.
#[derive(Debug)]
#[must_use = "who is not admitted must not call"]
pub enum Admission<L: BreakerLock = StdLock> {
    /// Call, and tell the permit what came of it.
    Permit(Permit<L>),
    /// Leave it alone; asking again makes sense at `until`. While a probe is out nobody knows
    /// when it ends, then this is one cool-down from now.
    Open { until: Timestamp },
}

/// Leave to make one call. Dropping it untold counts nothing and lets another be the probe.
#[must_use = "a permit is told what came of the call"]
pub struct Permit<L: BreakerLock = StdLock> {
    shared: Arc<SharedCircuits<L>>,
    name: String,
    generation: u64,
    state: PermitState,
}

/// Whether a permit was told what came of its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PermitState {
    Unreported,
    Reported,
}

/// What a failure led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureOutcome {
    /// This failure opened the circuit, or opened it again.
    Tripped,
    /// It was counted; so many failures in a row the circuit has now. A result of an older
    /// generation is not one of them.
    Counted(u64),
}

/// How a circuit stands, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum CircuitState {
    Closed,
    /// It stays so until somebody is admitted at or after this time.
    Open {
        until: Timestamp,
    },
    HalfOpen,
}

/// A change of state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transition {
    /// Rises with every change of the circuit, so that changes can be put in order.
    pub generation: u64,
    pub from: CircuitState,
    pub to: CircuitState,
    /// The time the caller gave.
    pub at: Timestamp,
}

/// What is known of a circuit at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CircuitSnapshot {
    pub name: String,
    #[serde(flatten)]
    pub state: CircuitState,
    pub consecutive_failures: u64,
    /// All that were told, through resets too.
    pub successes: u64,
    pub failures: u64,
    /// How often it opened.
    pub trips: u64,
}

impl CircuitBreaker {
    pub fn new(settings: BreakerSettings, observers: Vec<Arc<dyn BreakerObserver>>) -> Self {
        Self::with_lock(settings, observers)
    }
}

impl<L: BreakerLock> CircuitBreaker<L> {
    /// A breaker with a lock of the caller's choice.
    pub fn with_lock(
        settings: BreakerSettings,
        observers: Vec<Arc<dyn BreakerObserver>>,
    ) -> CircuitBreaker<L> {
        let shared = SharedCircuits {
            settings,
            observers,
            circuits: L::new(BTreeMap::new()),
        };
        CircuitBreaker {
            shared: Arc::new(shared),
        }
    }

    /// Asks for leave to call; looking and taking are one step.
    pub fn admit(&self, name: &str, now: Timestamp) -> Admission<L> {
        let settings = &self.shared.settings;
        let (outcome, transition) = self
            .shared
            .update(name, |circuit| circuit.admit(settings, now));
        // The permit is there before observers are told: one that panics drops it.
        let admission = match outcome {
            AdmitOutcome::Admitted { generation } => Admission::Permit(Permit {
                shared: Arc::clone(&self.shared),
                name: name.to_owned(),
                generation,
                state: PermitState::Unreported,
            }),
            AdmitOutcome::Rejected { until } => Admission::Open { until },
        };
        self.shared.notify(name, transition);
        admission
    }

    /// Counts a success nobody was admitted for, and closes the circuit.
    pub fn record_success(&self, name: &str, now: Timestamp) {
        self.shared
            .update_and_notify(name, |circuit| circuit.succeed(None, now));
    }

    /// Counts a failure nobody was admitted for; one too many opens the circuit, and so does any
    /// after the cool-down.
    pub fn record_failure(&self, name: &str, now: Timestamp) -> FailureOutcome {
        let settings = &self.shared.settings;
        self.shared
            .update_and_notify(name, |circuit| circuit.fail(None, settings, now))
    }

    /// Whether who asks now would be turned away.
    pub fn is_open(&self, name: &str, now: Timestamp) -> bool {
        self.shared.with_circuits(|circuits| {
            circuits
                .get(name)
                .is_some_and(|circuit| circuit.is_open(now))
        })
    }

    /// Closes the circuit, as if nothing had failed before; cumulative counts stay.
    pub fn reset(&self, name: &str, now: Timestamp) {
        self.shared
            .update_and_notify(name, |circuit| circuit.reset(now));
    }

    /// Closes every circuit, all at the same moment.
    pub fn reset_all(&self, now: Timestamp) {
        let transitions: Vec<(String, Transition)> = self.shared.with_circuits(|circuits| {
            let reset = |(name, circuit): (&String, &mut Circuit)| {
                let ((), transition) = circuit.reset(now);
                Some((name.clone(), transition?))
            };
            circuits.iter_mut().filter_map(reset).collect()
        });
        for (name, transition) in transitions {
            self.shared.notify(&name, Some(transition));
        }
    }

    /// How the circuit stands; a name never heard of is closed and has counted nothing.
    pub fn snapshot(&self, name: &str) -> CircuitSnapshot {
        self.shared
            .with_circuits(|circuits| match circuits.get(name) {
                Some(circuit) => circuit.snapshot(name),
                None => Circuit::default().snapshot(name),
            })
    }

    /// How every circuit stood at one moment, by name.
    pub fn snapshot_all(&self) -> Vec<CircuitSnapshot> {
        self.shared.with_circuits(|circuits| {
            let each = |(name, circuit): (&String, &mut Circuit)| circuit.snapshot(name);
            circuits.iter_mut().map(each).collect()
        })
    }
}

impl<L: BreakerLock> Permit<L> {
    /// The call succeeded.
    pub fn record_success(mut self, now: Timestamp) {
        self.state = PermitState::Reported;
        let generation = Some(self.generation);
        self.shared
            .update_and_notify(&self.name, |circuit| circuit.succeed(generation, now));
    }

    /// The call failed.
    pub fn record_failure(mut self, now: Timestamp) -> FailureOutcome {
        self.state = PermitState::Reported;
        let generation = Some(self.generation);
        let settings = &self.shared.settings;
        self.shared.update_and_notify(&self.name, |circuit| {
            circuit.fail(generation, settings, now)
        })
    }
}

impl<L: BreakerLock> Drop for Permit<L> {
    fn drop(&mut self) {
        if self.state == PermitState::Unreported {
            let generation = self.generation;
            self.shared
                .update_and_notify(&self.name, |circuit| (circuit.abandon(generation), None));
        }
    }
}

impl<L: BreakerLock> SharedCircuits<L> {
    /// One verb on one circuit, and what observers are told after it.
    fn update_and_notify<R>(
        &self,
        name: &str,
        verb: impl FnOnce(&mut Circuit) -> CircuitEffect<R>,
    ) -> R {
        let (answer, transition) = self.update(name, verb);
        self.notify(name, transition);
        answer
    }

    /// Reads, checks and writes one circuit under one lock (law 6).
    fn update<R>(
        &self,
        name: &str,
        verb: impl FnOnce(&mut Circuit) -> CircuitEffect<R>,
    ) -> CircuitEffect<R> {
        self.with_circuits(|circuits| match circuits.get_mut(name) {
            Some(circuit) => verb(circuit),
            None => verb(circuits.entry(name.to_owned()).or_default()),
        })
    }

    fn with_circuits<R>(&self, work: impl FnOnce(&mut BTreeMap<String, Circuit>) -> R) -> R {
        L::with(&self.circuits, work)
    }

    fn notify(&self, name: &str, transition: Option<Transition>) {
        if let Some(transition) = transition {
            for observer in &self.observers {
                observer.on_transition(name, &transition);
            }
        }
    }
}

impl<L: BreakerLock> Clone for CircuitBreaker<L> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<L: BreakerLock> fmt::Debug for CircuitBreaker<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the circuits: showing something must not wait for a lock.
        f.debug_struct("CircuitBreaker")
            .field("settings", &self.shared.settings)
            .finish_non_exhaustive()
    }
}

impl<L: BreakerLock> fmt::Debug for Permit<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("name", &self.name)
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

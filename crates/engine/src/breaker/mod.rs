//! The circuit breaker: a callee that keeps failing is not called for a while, by any caller.
//!
//! One type for all callers, models and strategies alike. Read [`CircuitBreaker`] for its
//! guarantees, `circuit.rs` for the transitions of one circuit, `lock.rs` for the hook for model
//! checkers.

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
    /// Number of consecutive failures that open it.
    pub threshold: NonZeroU32,
    /// Time that it stays open before one trial call is admitted.
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

/// Circuits by name, shared by all callers of the named services. Clones are handles of the same
/// circuits.
///
/// A circuit is *closed* (calls are admitted) until the threshold of consecutive failures is
/// reached; then it is *open* (no call is admitted). The first caller after the cool-down makes it
/// *half-open* and is its probe: if the probe succeeds, the circuit closes; if it fails, it opens
/// for another cool-down.
///
/// # Guarantees
///
/// Operations are linearizable: each takes effect at one moment between its call and its return,
/// under one lock for all names. In that order:
///
/// - Each reported success and failure is counted exactly once, in every state.
/// - A circuit is closed exactly while there are fewer consecutive failures than the threshold.
///   "Consecutive" means in the order in which results are reported, not in which calls started.
/// - Each opening is reported as [`FailureOutcome::Tripped`] to exactly one caller, the one whose
///   failure caused it, and is counted once in [`CircuitSnapshot::trips`].
/// - While a circuit is half-open, at most one permit of that generation exists. Every state change
///   and every reset starts a new generation. The result of a permit of an older generation is
///   counted and changes nothing else, so a call that started before the circuit opened can neither
///   close nor reopen it.
/// - A permit that is dropped without a result, also by a panic, counts nothing; if it was the
///   probe, the next caller is the probe.
/// - An open circuit rejects calls for at most one cool-down from when it is first asked, even if
///   the clock was set back.
/// - The lock is held for one operation on memory. No foreign code runs under it, so no operation
///   waits for an observer, and an observer may call the breaker.
///
/// # Not guaranteed
///
/// - A permit allows a call but reserves nothing: calls admitted before a circuit opened continue.
/// - [`record_success`](Self::record_success) and [`record_failure`](Self::record_failure) have no
///   generation. They apply to the circuit's state when they are called: a success closes it even
///   if the call started long ago. Use a permit where possible.
/// - [`is_open`](Self::is_open) may be outdated when it returns, and it makes no caller the probe;
///   only [`admit`](Self::admit) decides and reserves in one step.
/// - A permit that is never dropped blocks further probes: the caller must set a deadline and drop
///   it.
/// - Observers see every change once, on the thread that made it, but two changes may be reported
///   in either order; [`Transition::generation`] gives the order.
/// - Times come from the callers. The breaker reads no clock, orders nothing by time and wakes no
///   one.
/// - Circuits live as long as the breaker and only in this process. Names are never removed, so
///   their number must be small.
pub struct CircuitBreaker<L: BreakerLock = StdLock> {
    shared: Arc<SharedCircuits<L>>,
}

struct SharedCircuits<L: BreakerLock> {
    settings: BreakerSettings,
    observers: Vec<Arc<dyn BreakerObserver>>,
    circuits: L::Of<BTreeMap<String, Circuit>>,
}

/// Observes state changes of circuits.
pub trait BreakerObserver: fmt::Debug + Send + Sync {
    /// Called after the change, without any lock, on the thread that made it.
    fn on_transition(&self, name: &str, transition: &Transition);
}

/// Outcome of [`CircuitBreaker::admit`].
#[derive(Debug)]
#[must_use = "who is not admitted must not call"]
pub enum Admission<L: BreakerLock = StdLock> {
    /// The call may be made; its result must be reported to the permit.
    Permit(Permit<L>),
    /// The call is rejected; ask again at `until`. While a probe is running its end is unknown, so
    /// `until` is one cool-down from now.
    Open { until: Timestamp },
}

/// Permission to make one call. Dropping it without a result counts nothing and frees the probe.
#[must_use = "report the result of the call to its permit"]
pub struct Permit<L: BreakerLock = StdLock> {
    shared: Arc<SharedCircuits<L>>,
    name: String,
    generation: u64,
    state: PermitState,
}

/// Whether the result was reported to a permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PermitState {
    Unreported,
    Reported,
}

/// The effect of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureOutcome {
    /// This failure opened or reopened the circuit.
    Tripped,
    /// It was counted; the value is the number of consecutive failures. Results of an older
    /// generation are not among them.
    Counted(u64),
}

/// State of a circuit, for display.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum CircuitState {
    Closed,
    /// It stays open until a call is admitted at or after this time.
    Open {
        until: Timestamp,
    },
    HalfOpen,
}

/// A state change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transition {
    /// Rises with every change of the circuit, so that changes can be ordered.
    pub generation: u64,
    pub from: CircuitState,
    pub to: CircuitState,
    /// The time given by the caller.
    pub at: Timestamp,
}

/// State of a circuit at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CircuitSnapshot {
    pub name: String,
    #[serde(flatten)]
    pub state: CircuitState,
    pub consecutive_failures: u64,
    /// All reported successes, not cleared by resets.
    pub successes: u64,
    pub failures: u64,
    /// Number of times it opened.
    pub trips: u64,
}

impl CircuitBreaker {
    pub fn new(settings: BreakerSettings, observers: Vec<Arc<dyn BreakerObserver>>) -> Self {
        Self::with_lock(settings, observers)
    }
}

impl<L: BreakerLock> CircuitBreaker<L> {
    /// Creates a breaker with a custom lock.
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

    /// Asks for permission to call; check and reservation are one step.
    pub fn admit(&self, name: &str, now: Timestamp) -> Admission<L> {
        let settings = &self.shared.settings;
        let (outcome, transition) = self
            .shared
            .update(name, |circuit| circuit.admit(settings, now));
        // Create the permit before notifying observers, so that a panicking observer drops it.
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

    /// Counts a success of a call without a permit, and closes the circuit.
    pub fn record_success(&self, name: &str, now: Timestamp) {
        self.shared
            .update_and_notify(name, |circuit| circuit.succeed(None, now));
    }

    /// Counts a failure of a call without a permit. Opens the circuit at the threshold, and reopens
    /// it after the cool-down.
    pub fn record_failure(&self, name: &str, now: Timestamp) -> FailureOutcome {
        let settings = &self.shared.settings;
        self.shared
            .update_and_notify(name, |circuit| circuit.fail(None, settings, now))
    }

    /// Whether a call would be rejected now.
    pub fn is_open(&self, name: &str, now: Timestamp) -> bool {
        self.shared.with_circuits(|circuits| {
            circuits
                .get(name)
                .is_some_and(|circuit| circuit.is_open(now))
        })
    }

    /// Closes the circuit and clears the consecutive failures; cumulative counts stay.
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

    /// Returns the state of the circuit. An unknown name is closed with zero counts.
    pub fn snapshot(&self, name: &str) -> CircuitSnapshot {
        self.shared
            .with_circuits(|circuits| match circuits.get(name) {
                Some(circuit) => circuit.snapshot(name),
                None => Circuit::default().snapshot(name),
            })
    }

    /// Returns the states of all circuits at one moment, ordered by name.
    pub fn snapshot_all(&self) -> Vec<CircuitSnapshot> {
        self.shared.with_circuits(|circuits| {
            let each = |(name, circuit): (&String, &mut Circuit)| circuit.snapshot(name);
            circuits.iter_mut().map(each).collect()
        })
    }
}

impl<L: BreakerLock> Permit<L> {
    /// Reports that the call succeeded.
    pub fn record_success(mut self, now: Timestamp) {
        self.state = PermitState::Reported;
        let generation = Some(self.generation);
        self.shared
            .update_and_notify(&self.name, |circuit| circuit.succeed(generation, now));
    }

    /// Reports that the call failed.
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
    /// Runs one operation on one circuit, then notifies the observers.
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
        // Omits the circuits: debug output must not wait for a lock.
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

//! Many orders of six callers, by shuttle: random, and with few well-placed switches (PCT).
//!
//! Six callers have too many orders to explore all. For each tried order there must be a sequential
//! order of calls that explains every answer and the final state.

#![expect(
    clippy::unwrap_used,
    reason = "all of this is test: what fails must fail it"
)]

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use cleveragents_engine::breaker::{
    BreakerLock, BreakerObserver, CircuitBreaker, CircuitState, Transition,
};
use cleveragents_integration_tests::trials;
use shuttle::rand::Rng;

use cleveragents_integration_tests::breaker::reference::{BreakerOutcome, ReferenceBreaker};
use cleveragents_integration_tests::breaker::script::{
    BreakerAnswer, BreakerCall, BreakerCaller, NAME, at, circuit_snapshot, settings,
};

const CALLERS: usize = 6;

#[derive(Debug)]
struct ShuttleLock;

impl BreakerLock for ShuttleLock {
    type Of<T: Debug + Send> = shuttle::sync::Mutex<T>;

    fn new<T: Debug + Send>(value: T) -> Self::Of<T> {
        shuttle::sync::Mutex::new(value)
    }

    fn with<T: Debug + Send, R>(held: &Self::Of<T>, work: impl FnOnce(&mut T) -> R) -> R {
        let mut value = held.lock().unwrap_or_else(PoisonError::into_inner);
        work(&mut value)
    }
}

/// Records notifications.
#[derive(Debug, Default)]
struct ShuttleTransitionLog(Mutex<Vec<Transition>>);

impl BreakerObserver for ShuttleTransitionLog {
    fn on_transition(&self, name: &str, transition: &Transition) {
        assert_eq!(name, NAME);
        self.0.lock().unwrap().push(*transition);
    }
}

/// Two calls around the end of the cool-down.
fn script() -> Vec<BreakerCall> {
    let mut chance = shuttle::rand::thread_rng();
    let now = chance.gen_range(9..12);
    match chance.gen_range(0..8) {
        0 | 1 => vec![BreakerCall::Admit(now), BreakerCall::Failure(now)],
        2 => vec![BreakerCall::Admit(now), BreakerCall::Success(now)],
        3 => vec![BreakerCall::Admit(now), BreakerCall::Drop],
        4 => vec![BreakerCall::RecordSuccess(now), BreakerCall::Admit(now)],
        5 => vec![BreakerCall::IsOpen(now), BreakerCall::RecordFailure(now)],
        6 => vec![BreakerCall::Reset(now), BreakerCall::RecordFailure(now)],
        _ => vec![
            BreakerCall::RecordFailure(now),
            BreakerCall::RecordFailure(now),
        ],
    }
}

/// One run of six callers; the outcome must be explainable.
fn run(cool_down: i64) {
    let log = Arc::new(ShuttleTransitionLog::default());
    let breaker =
        CircuitBreaker::<ShuttleLock>::with_lock(settings(cool_down), vec![Arc::clone(&log) as _]);
    let mut reference = ReferenceBreaker::new(cool_down, CALLERS);
    for _ in 0..2 {
        breaker.record_failure(NAME, at(0));
        reference.perform(0, BreakerCall::RecordFailure(0));
    }
    let scripts: Vec<Vec<BreakerCall>> = (0..CALLERS).map(|_| script()).collect();
    let callers: Vec<_> = scripts
        .iter()
        .map(|script| {
            let (script, breaker) = (script.clone(), breaker.clone());
            shuttle::thread::spawn(move || {
                let mut caller = BreakerCaller::new();
                let play = |verb: &BreakerCall| caller.perform(&breaker, *verb);
                let answers: Vec<BreakerAnswer> = script.iter().map(play).collect();
                (answers, caller)
            })
        })
        .collect();
    let (answers, held): (Vec<_>, Vec<_>) = callers
        .into_iter()
        .map(|caller| caller.join().unwrap())
        .unzip();
    let outcome = BreakerOutcome {
        answers,
        end: circuit_snapshot(&breaker),
    };
    drop(held);
    assert!(
        reference.explains(&scripts, &outcome),
        "no order explains {outcome:?} of {scripts:?}"
    );
    assert_transitions_chain(&log, &outcome);
}

/// Every opening was notified once, and the ordered transitions form a chain.
fn assert_transitions_chain(log: &ShuttleTransitionLog, outcome: &BreakerOutcome) {
    let mut message = log.0.lock().unwrap().clone();
    message.sort_by_key(|transition| transition.generation);
    let openings = message
        .iter()
        .filter(|transition| matches!(transition.to, CircuitState::Open { .. }));
    let tripped = outcome
        .answers
        .iter()
        .flatten()
        .filter(|answer| **answer == BreakerAnswer::Tripped);
    let trips = usize::try_from(outcome.end.trips).unwrap();
    assert_eq!((openings.count(), tripped.count()), (trips, trips));
    for pair in message.windows(2) {
        assert!(pair[0].generation < pair[1].generation, "{message:?}");
        let (left, entered) = (kind(pair[0].to), kind(pair[1].from));
        assert_eq!(left, entered, "{message:?}");
    }
}

fn kind(state: CircuitState) -> std::mem::Discriminant<CircuitState> {
    std::mem::discriminant(&state)
}

fn runs() -> usize {
    usize::try_from(trials(2_000, 50)).unwrap()
}

#[test]
fn six_random_callers_are_linearizable() {
    for cool_down in [0, 10] {
        shuttle::check_random(move || run(cool_down), runs());
    }
}

#[test]
fn six_callers_with_few_switches_are_linearizable() {
    for cool_down in [0, 10] {
        shuttle::check_pct(move || run(cool_down), runs(), 4);
    }
}

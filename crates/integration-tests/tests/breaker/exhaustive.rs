//! Every interleaving of two and three callers, from every state, by loom.
//!
//! For each choice of scripts, loom runs the shipped breaker in every order that its lock allows.
//! The observed outcomes must equal those of the reference under sequential execution: no other
//! outcome occurs, and none is missing.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use cleveragents_engine::breaker::{BreakerLock, BreakerObserver, CircuitBreaker, Transition};

use cleveragents_integration_tests::breaker::reference::{BreakerOutcome, ReferenceBreaker};
use cleveragents_integration_tests::breaker::script::{
    BreakerAnswer, BreakerCall, BreakerCaller, circuit_snapshot, settings,
};
use cleveragents_integration_tests::trials;

const COOL_DOWN: i64 = 10;

/// The scripts of one caller, all at the moment the first cool-down ends.
const SCRIPTS: [&[BreakerCall]; 8] = [
    &[BreakerCall::Admit(10), BreakerCall::Success(10)],
    &[BreakerCall::Admit(10), BreakerCall::Failure(10)],
    &[BreakerCall::Admit(10), BreakerCall::Drop],
    &[
        BreakerCall::RecordFailure(10),
        BreakerCall::RecordFailure(10),
    ],
    &[BreakerCall::RecordFailure(9), BreakerCall::IsOpen(10)],
    &[BreakerCall::RecordSuccess(10)],
    &[BreakerCall::Reset(10), BreakerCall::Admit(10)],
    &[BreakerCall::IsOpen(10), BreakerCall::RecordFailure(10)],
];

/// The scripts for three callers, few enough to explore every order of every combination.
const CALLS: [&[BreakerCall]; 5] = [
    &[BreakerCall::Admit(10), BreakerCall::Success(10)],
    &[BreakerCall::Admit(10), BreakerCall::Failure(10)],
    &[BreakerCall::Admit(10), BreakerCall::Drop],
    &[BreakerCall::RecordFailure(10)],
    &[BreakerCall::Reset(10)],
];

/// The calls that set up the circuit's state, made by the first caller.
const INITIAL_CALLS: [&[BreakerCall]; 5] = [
    &[],
    &[BreakerCall::RecordFailure(0), BreakerCall::RecordFailure(0)],
    &[
        BreakerCall::RecordFailure(0),
        BreakerCall::RecordFailure(0),
        BreakerCall::RecordFailure(0),
    ],
    &[
        BreakerCall::RecordFailure(0),
        BreakerCall::RecordFailure(0),
        BreakerCall::RecordFailure(0),
        BreakerCall::Admit(10),
        BreakerCall::Drop,
    ],
    // With a permit from before the trip, so that late results are covered.
    &[
        BreakerCall::Admit(0),
        BreakerCall::RecordFailure(0),
        BreakerCall::RecordFailure(0),
        BreakerCall::RecordFailure(0),
    ],
];

#[derive(Debug)]
struct LoomLock;

impl BreakerLock for LoomLock {
    type Of<T: Debug + Send> = loom::sync::Mutex<T>;

    fn new<T: Debug + Send>(value: T) -> Self::Of<T> {
        loom::sync::Mutex::new(value)
    }

    fn with<T: Debug + Send, R>(held: &Self::Of<T>, work: impl FnOnce(&mut T) -> R) -> R {
        let mut value = held.lock().unwrap_or_else(PoisonError::into_inner);
        work(&mut value)
    }
}

/// Takes the breaker's lock when notified: if the breaker notified while holding it, loom would
/// report a deadlock.
#[derive(Debug, Default)]
struct LoomObserver(Mutex<Option<CircuitBreaker<LoomLock>>>);

impl BreakerObserver for LoomObserver {
    fn on_transition(&self, name: &str, _transition: &Transition) {
        let breaker = self.0.lock().unwrap().clone();
        breaker.unwrap().snapshot(name);
    }
}

/// Runs the scripts in every order; returns the observed outcomes and the number of runs.
fn explore(
    beginning: &'static [BreakerCall],
    scripts: &[&'static [BreakerCall]],
) -> (BTreeSet<BreakerOutcome>, usize) {
    let seen = Arc::new(Mutex::new((BTreeSet::new(), 0)));
    let (record, scripts) = (Arc::clone(&seen), scripts.to_vec());
    loom::model(move || {
        let breaker = CircuitBreaker::<LoomLock>::with_lock(settings(COOL_DOWN), Vec::new());
        let mut first = BreakerCaller::new();
        for verb in beginning {
            first.perform(&breaker, *verb);
        }
        // The first caller is the current thread: one thread less means fewer equivalent orders.
        let others: Vec<_> = scripts[1..]
            .iter()
            .map(|script| {
                let (script, breaker) = (*script, breaker.clone());
                loom::thread::spawn(move || run_script(BreakerCaller::new(), &breaker, script))
            })
            .collect();
        let mut ended = vec![run_script(first, &breaker, scripts[0])];
        ended.extend(others.into_iter().map(|caller| caller.join().unwrap()));
        let (answers, callers): (Vec<_>, Vec<_>) = ended.into_iter().unzip();
        let end = circuit_snapshot(&breaker);
        drop(callers);
        let mut record = record.lock().unwrap();
        record.0.insert(BreakerOutcome { answers, end });
        record.1 += 1;
    });
    let (outcomes, runs) = &*seen.lock().unwrap();
    (outcomes.clone(), *runs)
}

/// Returns the answers to a caller, and the caller with its remaining permits.
fn run_script(
    mut caller: BreakerCaller<LoomLock>,
    breaker: &CircuitBreaker<LoomLock>,
    script: &[BreakerCall],
) -> (Vec<BreakerAnswer>, BreakerCaller<LoomLock>) {
    let each = |verb: &BreakerCall| caller.perform(breaker, *verb);
    (script.iter().map(each).collect(), caller)
}

/// Compares the outcomes under loom with those of the reference.
fn assert_matches_reference(
    beginning: &'static [BreakerCall],
    scripts: &[&'static [BreakerCall]],
) -> usize {
    let mut reference = ReferenceBreaker::new(COOL_DOWN, scripts.len());
    for verb in beginning {
        reference.perform(0, *verb);
    }
    let owned: Vec<Vec<BreakerCall>> = scripts.iter().map(|script| script.to_vec()).collect();
    let (seen, runs) = explore(beginning, scripts);
    let allowed = reference.outcomes(&owned);
    assert_eq!(
        seen, allowed,
        "seen and allowed differ: {scripts:?} after {beginning:?}"
    );
    runs
}

#[test]
fn two_concurrent_callers_are_linearizable() {
    let mut runs = 0;
    for beginning in INITIAL_CALLS {
        for one in SCRIPTS {
            for other in SCRIPTS {
                runs += assert_matches_reference(beginning, &[one, other]);
            }
        }
    }
    println!("{runs} runs of two callers");
}

#[test]
fn three_concurrent_callers_are_linearizable() {
    let mut runs = 0;
    // The full set takes minutes, so it is only for the run with all trials.
    let (beginnings, calls) = match trials(100, 0) {
        100.. => (&INITIAL_CALLS[..], &SCRIPTS[..]),
        _ => (&INITIAL_CALLS[1..4], &CALLS[..]),
    };
    for beginning in beginnings {
        for (first, one) in calls.iter().enumerate() {
            for (second, other) in calls.iter().enumerate().skip(first) {
                for third in &calls[second..] {
                    runs += assert_matches_reference(beginning, &[one, other, third]);
                }
            }
        }
    }
    println!("{runs} runs of three callers");
}

#[test]
fn observers_are_notified_outside_the_lock() {
    loom::model(|| {
        let interferer = Arc::new(LoomObserver::default());
        let breaker = CircuitBreaker::<LoomLock>::with_lock(
            settings(COOL_DOWN),
            vec![Arc::clone(&interferer) as _],
        );
        *interferer.0.lock().unwrap() = Some(breaker.clone());
        let callers: Vec<_> = (0..2)
            .map(|_| {
                let breaker = breaker.clone();
                loom::thread::spawn(move || {
                    let mut caller = BreakerCaller::new();
                    caller.perform(&breaker, BreakerCall::RecordFailure(0));
                    caller.perform(&breaker, BreakerCall::RecordFailure(0));
                    caller.perform(&breaker, BreakerCall::Admit(10));
                })
            })
            .collect();
        for caller in callers {
            caller.join().unwrap();
        }
        *interferer.0.lock().unwrap() = None;
    });
}

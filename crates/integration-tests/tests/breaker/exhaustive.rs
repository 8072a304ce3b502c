//! Every order of two and three callers, from every state, by loom.
//!
//! For each choice of scripts loom runs the shipped breaker in every order its lock allows. What
//! was seen must be exactly what the reference allows when one verb comes after the other: nothing
//! else ever happens, and no order was left out.

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

/// What one caller may do. All of it at the moment the first cool-down ends.
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

/// What the calls of three may come to, few enough for every order of every three.
const CALLS: [&[BreakerCall]; 5] = [
    &[BreakerCall::Admit(10), BreakerCall::Success(10)],
    &[BreakerCall::Admit(10), BreakerCall::Failure(10)],
    &[BreakerCall::Admit(10), BreakerCall::Drop],
    &[BreakerCall::RecordFailure(10)],
    &[BreakerCall::Reset(10)],
];

/// How the circuit came to stand before the callers begin; the first of them did it.
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
    // With a permit from before the trip, so that a late result is among what happens.
    &[
        BreakerCall::Admit(0),
        BreakerCall::RecordFailure(0),
        BreakerCall::RecordFailure(0),
        BreakerCall::RecordFailure(0),
    ],
];

/// Loom's mutex behind the breaker.
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

/// Takes the lock as soon as it is told: were it told under the lock, loom would see a deadlock.
#[derive(Debug, Default)]
struct LoomObserver(Mutex<Option<CircuitBreaker<LoomLock>>>);

impl BreakerObserver for LoomObserver {
    fn on_transition(&self, name: &str, _transition: &Transition) {
        let breaker = self.0.lock().unwrap().clone();
        breaker.unwrap().snapshot(name);
    }
}

/// Runs the scripts in every order; gives what was seen and in how many runs.
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
        // The first caller is the thread that has begun: one less to start means fewer orders that
        // differ in nothing.
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

/// What a caller is answered, and the caller with the permits it still holds.
fn run_script(
    mut caller: BreakerCaller<LoomLock>,
    breaker: &CircuitBreaker<LoomLock>,
    script: &[BreakerCall],
) -> (Vec<BreakerAnswer>, BreakerCaller<LoomLock>) {
    let each = |verb: &BreakerCall| caller.perform(breaker, *verb);
    (script.iter().map(each).collect(), caller)
}

/// Compares what loom saw with what the reference allows.
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
    // All of it takes minutes: that is for the run with every trial.
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
        let meddler = Arc::new(LoomObserver::default());
        let breaker = CircuitBreaker::<LoomLock>::with_lock(
            settings(COOL_DOWN),
            vec![Arc::clone(&meddler) as _],
        );
        *meddler.0.lock().unwrap() = Some(breaker.clone());
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
        *meddler.0.lock().unwrap() = None;
    });
}

//! The lost failure: two threads read the same count, and both write that count plus one.
//!
//! The test forces the reported order of events: a custom lock alternates between two callers. If
//! an operation took the lock twice, once to read and once to write, both would read before either
//! wrote.

use std::cell::RefCell;
use std::fmt::Debug;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use cleveragents_engine::breaker::{
    Admission, BreakerLock, CircuitBreaker, CircuitState, FailureOutcome, StdLock,
};

use cleveragents_integration_tests::breaker::script::{NAME, at, settings};

/// The caller that gets the lock next, and the callers that still want it.
#[derive(Debug)]
struct Turns {
    state: Mutex<(usize, [bool; 2])>,
    moved: Condvar,
}

impl Turns {
    fn new() -> Self {
        Self {
            state: Mutex::new((0, [true; 2])),
            moved: Condvar::new(),
        }
    }

    /// Waits for the caller's turn, runs `work`, and passes the turn to the other caller.
    fn take<R>(&self, caller: usize, work: impl FnOnce() -> R) -> R {
        let state = self.state.lock().unwrap();
        let mut state = self
            .moved
            .wait_while(state, |(turn, wanting)| {
                *turn != caller && wanting[1 - caller]
            })
            .unwrap();
        let answer = work();
        state.0 = 1 - caller;
        self.moved.notify_all();
        answer
    }

    fn leave(&self, caller: usize) {
        self.state.lock().unwrap().1[caller] = false;
        self.moved.notify_all();
    }
}

thread_local! {
    /// The turns this thread takes part in, and its caller number.
    static CALLER: RefCell<Option<(Arc<Turns>, usize)>> = const { RefCell::new(None) };
}

/// The standard lock, alternating between two callers; all other threads get it immediately.
#[derive(Debug)]
struct AlternateLock;

impl BreakerLock for AlternateLock {
    type Of<T: Debug + Send> = Mutex<T>;

    fn new<T: Debug + Send>(value: T) -> Mutex<T> {
        StdLock::new(value)
    }

    fn with<T: Debug + Send, R>(held: &Mutex<T>, work: impl FnOnce(&mut T) -> R) -> R {
        match CALLER.with_borrow(Clone::clone) {
            Some((turns, caller)) => turns.take(caller, || StdLock::with(held, work)),
            None => StdLock::with(held, work),
        }
    }
}

/// Runs the same work in two callers, with the lock alternating between them.
fn run_alternately<R: Send>(work: impl Fn() -> R + Sync) -> [R; 2] {
    let turns = Arc::new(Turns::new());
    let call = |caller: usize| {
        CALLER.set(Some((Arc::clone(&turns), caller)));
        let answer = work();
        turns.leave(caller);
        answer
    };
    thread::scope(|scope| {
        let callers = [0, 1].map(|caller| {
            let call = &call;
            scope.spawn(move || call(caller))
        });
        callers.map(|caller| caller.join().unwrap())
    })
}

fn breaker() -> CircuitBreaker<AlternateLock> {
    CircuitBreaker::with_lock(settings(10), Vec::new())
}

#[test]
fn the_failure_between_read_and_write_is_counted() {
    let breaker = breaker();
    for _ in 0..2 {
        breaker.record_failure(NAME, at(0));
    }
    let answers = run_alternately(|| breaker.record_failure(NAME, at(0)));
    assert_eq!(
        answers,
        [FailureOutcome::Tripped, FailureOutcome::Counted(4)]
    );
    let now = breaker.snapshot(NAME);
    assert_eq!(
        (now.failures, now.consecutive_failures, now.trips),
        (4, 4, 1)
    );
    assert!(breaker.is_open(NAME, at(0)), "never left enabled");
}

#[test]
fn a_concurrent_failure_and_success_keep_one_count() {
    let breaker = breaker();
    for _ in 0..2 {
        breaker.record_failure(NAME, at(0));
    }
    let first = Mutex::new(true);
    run_alternately(|| {
        let is_first = std::mem::take(&mut *first.lock().unwrap());
        if is_first {
            breaker.record_success(NAME, at(0));
        } else {
            breaker.record_failure(NAME, at(0));
        }
    });
    let now = breaker.snapshot(NAME);
    assert_eq!((now.successes, now.failures), (1, 3), "neither is lost");
    let is_open = now.state != CircuitState::Closed;
    assert_eq!(is_open, now.consecutive_failures >= 3, "{now:?}");
}

#[test]
fn two_callers_after_the_cool_down_get_one_probe() {
    let breaker = breaker();
    for _ in 0..3 {
        breaker.record_failure(NAME, at(0));
    }
    let held = run_alternately(|| match breaker.admit(NAME, at(10)) {
        Admission::Permit(permit) => Some(permit),
        Admission::Open { .. } => None,
    });
    assert_eq!(held.iter().flatten().count(), 1);
}

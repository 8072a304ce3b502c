//! 64 threads on one breaker: nothing is lost and no rule is broken.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use cleveragents_domain::Timestamp;
use cleveragents_engine::breaker::{
    Admission, BreakerObserver, CircuitBreaker, CircuitState, FailureOutcome, Transition,
};
use cleveragents_integration_tests::rng::RaceRng;
use cleveragents_integration_tests::trials;

use cleveragents_integration_tests::breaker::script::{THRESHOLD, at, settings};

const THREADS: u64 = 64;

/// Gets successes, failures and probes.
const MIXED: &str = "mixed";
/// Gets only failures, at one point in time.
const FAILING: &str = "failing";
/// Never succeeds, so every permit after the first trip is a probe.
const BROKEN: &str = "broken";

/// Counts notifications.
#[derive(Debug, Default)]
struct OpeningCounter(AtomicU64);

impl BreakerObserver for OpeningCounter {
    fn on_transition(&self, _name: &str, transition: &Transition) {
        if matches!(transition.to, CircuitState::Open { .. }) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The state shared by the threads.
struct StressState {
    breaker: CircuitBreaker,
    openings: Arc<OpeningCounter>,
    /// Microseconds; each read advances it.
    clock: AtomicI64,
    probes_out: AtomicU64,
    probes: AtomicU64,
}

/// The reports of one thread to the breaker, and its answers.
#[derive(Debug, Default)]
struct ThreadCounts {
    mixed_successes: u64,
    mixed_failures: u64,
    mixed_trips: u64,
    failing: u64,
    failing_trips: u64,
    broken: u64,
    broken_trips: u64,
}

impl StressState {
    fn new() -> Self {
        let openings = Arc::new(OpeningCounter::default());
        let mut settings = settings(0);
        settings.cool_down = std::time::Duration::from_micros(20);
        let breaker = CircuitBreaker::new(settings, vec![Arc::clone(&openings) as _]);
        Self {
            breaker,
            openings,
            clock: AtomicI64::new(0),
            probes_out: AtomicU64::new(0),
            probes: AtomicU64::new(0),
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.clock.fetch_add(1, Ordering::Relaxed))
    }

    fn work(&self, operations: u32) -> ThreadCounts {
        let mut ledger = ThreadCounts::default();
        let mut rng = RaceRng::new();
        for _ in 0..operations {
            match rng.below(16) {
                0 | 1 => self.fail(&mut ledger),
                2 | 3 => self.probe(&mut ledger, &mut rng),
                4 => self.check_state(),
                5 => {
                    self.breaker.record_success(MIXED, self.now());
                    ledger.mixed_successes += 1;
                }
                6..=8 => {
                    let failure = self.breaker.record_failure(MIXED, self.now());
                    ledger.mixed_failures += 1;
                    ledger.mixed_trips += trip_count(failure);
                }
                _ => self.call(&mut ledger, &mut rng),
            }
        }
        ledger
    }

    fn fail(&self, ledger: &mut ThreadCounts) {
        ledger.failing += 1;
        ledger.failing_trips += trip_count(self.breaker.record_failure(FAILING, at(0)));
    }

    fn call(&self, ledger: &mut ThreadCounts, rng: &mut RaceRng) {
        let Admission::Permit(permit) = self.breaker.admit(MIXED, self.now()) else {
            return;
        };
        match rng.below(8) {
            0 => drop(permit),
            1..=3 => {
                permit.record_success(self.now());
                ledger.mixed_successes += 1;
            }
            _ => {
                ledger.mixed_trips += trip_count(permit.record_failure(self.now()));
                ledger.mixed_failures += 1;
            }
        }
    }

    fn probe(&self, ledger: &mut ThreadCounts, rng: &mut RaceRng) {
        let Admission::Permit(permit) = self.breaker.admit(BROKEN, self.now()) else {
            return;
        };
        let others = self.probes_out.fetch_add(1, Ordering::SeqCst);
        assert_eq!(others, 0, "one probe at a time");
        self.probes.fetch_add(1, Ordering::Relaxed);
        if rng.below(4) == 0 {
            thread::yield_now();
        }
        self.probes_out.fetch_sub(1, Ordering::SeqCst);
        if rng.below(2) == 0 {
            ledger.broken_trips += trip_count(permit.record_failure(self.now()));
            ledger.broken += 1;
        }
    }

    /// At any moment: closed below the threshold, not closed at it.
    fn check_state(&self) {
        for circuit in self.breaker.snapshot_all() {
            let is_closed = circuit.state == CircuitState::Closed;
            let is_below = circuit.consecutive_failures < u64::from(THRESHOLD.get());
            assert_eq!(is_closed, is_below, "{circuit:?}");
        }
    }
}

fn trip_count(failure: FailureOutcome) -> u64 {
    u64::from(failure == FailureOutcome::Tripped)
}

#[test]
fn sixty_four_threads_lose_nothing_and_break_no_rule() {
    let operations = trials(1_000_000, 20_000);
    let arena = StressState::new();
    for _ in 0..THRESHOLD.get() {
        arena.breaker.record_failure(BROKEN, arena.now());
    }
    let started = Instant::now();
    let ledgers: Vec<ThreadCounts> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| scope.spawn(|| arena.work(operations)))
            .collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let sum = |part: fn(&ThreadCounts) -> u64| ledgers.iter().map(part).sum::<u64>();

    let mixed = arena.breaker.snapshot(MIXED);
    assert_eq!(mixed.successes, sum(|ledger| ledger.mixed_successes));
    assert_eq!(mixed.failures, sum(|ledger| ledger.mixed_failures));
    assert_eq!(mixed.trips, sum(|ledger| ledger.mixed_trips));

    let failing = arena.breaker.snapshot(FAILING);
    assert_eq!(failing.failures, sum(|ledger| ledger.failing));
    assert_eq!(failing.consecutive_failures, failing.failures);
    assert_eq!(
        (failing.trips, sum(|ledger| ledger.failing_trips)),
        (1, 1),
        "exactly one thread saw the trip"
    );

    let broken = arena.breaker.snapshot(BROKEN);
    assert_eq!(
        broken.failures,
        sum(|it| it.broken) + u64::from(THRESHOLD.get())
    );
    assert_eq!(broken.trips, sum(|ledger| ledger.broken_trips) + 1);
    assert_eq!(
        broken.trips,
        broken.failures - u64::from(THRESHOLD.get()) + 1
    );

    let openings = arena.openings.0.load(Ordering::Relaxed);
    assert_eq!(openings, mixed.trips + failing.trips + broken.trips);
    arena.check_state();
    assert!(mixed.trips > 100 && arena.probes.load(Ordering::Relaxed) > 100);
    println!(
        "{THREADS} × {operations} operations in {:.1?}: {} trips, {} probes",
        started.elapsed(),
        openings,
        arena.probes.load(Ordering::Relaxed)
    );
}

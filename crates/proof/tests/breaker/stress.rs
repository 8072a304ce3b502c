//! 64 threads at once on one breaker, as fast as they can: nothing is lost and no rule is broken.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use cleveragents_domain::Timestamp;
use cleveragents_engine::breaker::{
    Admission, BreakerObserver, CircuitBreaker, CircuitState, Failure, Transition,
};
use cleveragents_proof::chance::Chance;
use cleveragents_proof::trials;

use cleveragents_proof::breaker::script::{THRESHOLD, at, settings};

const THREADS: u64 = 64;

/// Everything happens to this one.
const MIXED: &str = "mixed";
/// Nothing but failures, at one moment.
const FAILING: &str = "failing";
/// It never succeeds, so every permit after the first trip is a probe.
const BROKEN: &str = "broken";

/// Counts what it is told.
#[derive(Debug, Default)]
struct Openings(AtomicU64);

impl BreakerObserver for Openings {
    fn changed(&self, _name: &str, transition: &Transition) {
        if matches!(transition.to, CircuitState::Open { .. }) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What the threads know together.
struct Arena {
    breaker: CircuitBreaker,
    openings: Arc<Openings>,
    /// Microseconds; each look makes it later.
    clock: AtomicI64,
    probes_out: AtomicU64,
    probes: AtomicU64,
}

/// What one thread told the breaker, and was told.
#[derive(Debug, Default)]
struct Ledger {
    mixed_successes: u64,
    mixed_failures: u64,
    mixed_trips: u64,
    failing: u64,
    failing_trips: u64,
    broken: u64,
    broken_trips: u64,
}

impl Arena {
    fn new() -> Self {
        let openings = Arc::new(Openings::default());
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

    fn work(&self, operations: u32) -> Ledger {
        let mut ledger = Ledger::default();
        let mut chance = Chance::new();
        for _ in 0..operations {
            match chance.below(16) {
                0 | 1 => self.fail(&mut ledger),
                2 | 3 => self.probe(&mut ledger, &mut chance),
                4 => self.look(),
                5 => {
                    self.breaker.record_success(MIXED, self.now());
                    ledger.mixed_successes += 1;
                }
                6..=8 => {
                    let failure = self.breaker.record_failure(MIXED, self.now());
                    ledger.mixed_failures += 1;
                    ledger.mixed_trips += tripped(failure);
                }
                _ => self.call(&mut ledger, &mut chance),
            }
        }
        ledger
    }

    fn fail(&self, ledger: &mut Ledger) {
        ledger.failing += 1;
        ledger.failing_trips += tripped(self.breaker.record_failure(FAILING, at(0)));
    }

    fn call(&self, ledger: &mut Ledger, chance: &mut Chance) {
        let Admission::Permit(permit) = self.breaker.admit(MIXED, self.now()) else {
            return;
        };
        match chance.below(8) {
            0 => drop(permit),
            1..=3 => {
                permit.success(self.now());
                ledger.mixed_successes += 1;
            }
            _ => {
                ledger.mixed_trips += tripped(permit.failure(self.now()));
                ledger.mixed_failures += 1;
            }
        }
    }

    fn probe(&self, ledger: &mut Ledger, chance: &mut Chance) {
        let Admission::Permit(permit) = self.breaker.admit(BROKEN, self.now()) else {
            return;
        };
        let others = self.probes_out.fetch_add(1, Ordering::SeqCst);
        assert_eq!(others, 0, "one probe at a time");
        self.probes.fetch_add(1, Ordering::Relaxed);
        if chance.below(4) == 0 {
            thread::yield_now();
        }
        self.probes_out.fetch_sub(1, Ordering::SeqCst);
        if chance.below(2) == 0 {
            ledger.broken_trips += tripped(permit.failure(self.now()));
            ledger.broken += 1;
        }
    }

    /// At any moment: closed below the threshold, not closed at it.
    fn look(&self) {
        for circuit in self.breaker.snapshot_all() {
            let is_closed = circuit.state == CircuitState::Closed;
            let is_below = circuit.consecutive_failures < u64::from(THRESHOLD.get());
            assert_eq!(is_closed, is_below, "{circuit:?}");
        }
    }
}

fn tripped(failure: Failure) -> u64 {
    u64::from(failure == Failure::Tripped)
}

#[test]
fn sixty_four_threads_lose_nothing_and_break_no_rule() {
    let operations = trials(1_000_000, 20_000);
    let arena = Arena::new();
    for _ in 0..THRESHOLD.get() {
        arena.breaker.record_failure(BROKEN, arena.now());
    }
    let started = Instant::now();
    let ledgers: Vec<Ledger> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| scope.spawn(|| arena.work(operations)))
            .collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let sum = |part: fn(&Ledger) -> u64| ledgers.iter().map(part).sum::<u64>();

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
    arena.look();
    assert!(mixed.trips > 100 && arena.probes.load(Ordering::Relaxed) > 100);
    println!(
        "{THREADS} × {operations} operations in {:.1?}: {} trips, {} probes",
        started.elapsed(),
        openings,
        arena.probes.load(Ordering::Relaxed)
    );
}

//! Every transition of a circuit, as a table, and properties that all transitions share.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use super::*;

const NAME: &str = "local/model";

/// Opens at three consecutive failures, for ten seconds.
fn settings() -> BreakerSettings {
    BreakerSettings {
        threshold: NonZeroU32::MIN.saturating_add(2),
        cool_down: Duration::from_secs(10),
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

/// Records the transitions it observes.
#[derive(Debug, Default)]
struct TransitionLog(Mutex<Vec<Transition>>);

impl BreakerObserver for TransitionLog {
    fn on_transition(&self, name: &str, transition: &Transition) {
        assert_eq!(name, NAME);
        self.0.lock().unwrap().push(*transition);
    }
}

/// A breaker in some state, with a permit of some generation.
struct BreakerFixture {
    breaker: CircuitBreaker,
    log: Arc<TransitionLog>,
    permit: Option<Permit>,
    other_permits: Vec<Permit>,
}

impl BreakerFixture {
    fn new() -> Self {
        let log = Arc::new(TransitionLog::default());
        let breaker = CircuitBreaker::new(settings(), vec![Arc::clone(&log) as _]);
        Self {
            permit: Some(permit(&breaker, at(0))),
            breaker,
            log,
            other_permits: Vec::new(),
        }
    }

    /// Builds the state named in the first column of the table.
    fn in_state(state: &str) -> Self {
        let mut fixture = Self::new();
        let failures = match state {
            "closed" => 0,
            "failed twice" => 2,
            _ => 3,
        };
        for _ in 0..failures {
            fixture.breaker.record_failure(NAME, at(0));
        }
        match state {
            "closed" | "failed twice" | "open" => {}
            "half-open, probe" => fixture.permit = Some(permit(&fixture.breaker, at(10))),
            "half-open, other" => fixture.other_permits.push(permit(&fixture.breaker, at(10))),
            "half-open, free" => drop(permit(&fixture.breaker, at(10))),
            other => panic!("no state {other}"),
        }
        fixture.log.0.lock().unwrap().clear();
        fixture
    }

    /// Runs the operation of the second column and renders its effects.
    fn perform(&mut self, verb: &str, now: Timestamp) -> String {
        let mut held = self.permit.take();
        let breaker = &self.breaker;
        let answer = match verb {
            "admit" => match breaker.admit(NAME, now) {
                Admission::Permit(permit) => {
                    self.other_permits.push(permit);
                    "permit".to_owned()
                }
                Admission::Open { until } => format!("open until {}", seconds(until)),
            },
            "success" => {
                held.take().unwrap().record_success(now);
                "-".to_owned()
            }
            "failure" => failure_text(held.take().unwrap().record_failure(now)),
            "drop" => {
                drop(held.take());
                "-".to_owned()
            }
            "record_success" => {
                breaker.record_success(NAME, now);
                "-".to_owned()
            }
            "record_failure" => failure_text(breaker.record_failure(NAME, now)),
            "is_open" => breaker.is_open(NAME, now).to_string(),
            "reset" => {
                breaker.reset(NAME, now);
                "-".to_owned()
            }
            "reset_all" => {
                breaker.reset_all(now);
                "-".to_owned()
            }
            other => panic!("no verb {other}"),
        };
        let message: Vec<String> = std::mem::take(&mut *self.log.0.lock().unwrap())
            .iter()
            .map(|message| format!(" {}>{}", state_text(message.from), state_text(message.to)))
            .collect();
        let now = breaker.snapshot(NAME);
        let line = format!(
            "{answer}; {} {}; {}+ {}- {}t;{}",
            state_text(now.state),
            now.consecutive_failures,
            now.successes,
            now.failures,
            now.trips,
            message.concat()
        );
        self.permit = held;
        line
    }
}

fn permit(breaker: &CircuitBreaker, now: Timestamp) -> Permit {
    match breaker.admit(NAME, now) {
        Admission::Permit(permit) => permit,
        Admission::Open { until } => panic!("open until {until}"),
    }
}

fn seconds(time: Timestamp) -> i64 {
    time.as_micros() / 1_000_000
}

fn state_text(state: CircuitState) -> String {
    match state {
        CircuitState::Closed => "closed".to_owned(),
        CircuitState::Open { until } => format!("open@{}", seconds(until)),
        CircuitState::HalfOpen => "half".to_owned(),
    }
}

fn failure_text(failure: FailureOutcome) -> String {
    match failure {
        FailureOutcome::Tripped => "tripped".to_owned(),
        FailureOutcome::Counted(number) => format!("counted {number}"),
    }
}

/// State, operation, time and effects: the result; state and consecutive failures; successes,
/// failures and trips; observed transitions.
#[rustfmt::skip]
const TRANSITIONS: &[(&str, &str, i64, &str)] = &[
    ("closed", "admit", 0, "permit; closed 0; 0+ 0- 0t;"),
    ("closed", "success", 0, "-; closed 0; 1+ 0- 0t;"),
    ("closed", "failure", 0, "counted 1; closed 1; 0+ 1- 0t;"),
    ("closed", "drop", 0, "-; closed 0; 0+ 0- 0t;"),
    ("closed", "record_success", 0, "-; closed 0; 1+ 0- 0t;"),
    ("closed", "record_failure", 0, "counted 1; closed 1; 0+ 1- 0t;"),
    ("closed", "is_open", 0, "false; closed 0; 0+ 0- 0t;"),
    ("closed", "reset", 0, "-; closed 0; 0+ 0- 0t;"),
    ("closed", "reset_all", 0, "-; closed 0; 0+ 0- 0t;"),

    ("failed twice", "admit", 1, "permit; closed 2; 0+ 2- 0t;"),
    ("failed twice", "success", 1, "-; closed 0; 1+ 2- 0t;"),
    ("failed twice", "failure", 1, "tripped; open@11 3; 0+ 3- 1t; closed>open@11"),
    ("failed twice", "drop", 1, "-; closed 2; 0+ 2- 0t;"),
    ("failed twice", "record_success", 1, "-; closed 0; 1+ 2- 0t;"),
    ("failed twice", "record_failure", 1, "tripped; open@11 3; 0+ 3- 1t; closed>open@11"),
    ("failed twice", "is_open", 1, "false; closed 2; 0+ 2- 0t;"),
    ("failed twice", "reset", 1, "-; closed 0; 0+ 2- 0t;"),
    ("failed twice", "reset_all", 1, "-; closed 0; 0+ 2- 0t;"),

    ("open", "admit", 9, "open until 10; open@10 3; 0+ 3- 1t;"),
    ("open", "admit", 10, "permit; half 3; 0+ 3- 1t; open@10>half"),
    ("open", "admit", -5, "open until 5; open@5 3; 0+ 3- 1t;"),
    ("open", "success", 9, "-; open@10 3; 1+ 3- 1t;"),
    ("open", "success", 10, "-; open@10 3; 1+ 3- 1t;"),
    ("open", "failure", 9, "counted 3; open@10 3; 0+ 4- 1t;"),
    ("open", "failure", 10, "counted 3; open@10 3; 0+ 4- 1t;"),
    ("open", "drop", 9, "-; open@10 3; 0+ 3- 1t;"),
    ("open", "record_success", 9, "-; closed 0; 1+ 3- 1t; open@10>closed"),
    ("open", "record_failure", 9, "counted 4; open@10 4; 0+ 4- 1t;"),
    ("open", "record_failure", 10, "tripped; open@20 4; 0+ 4- 2t; open@10>open@20"),
    ("open", "is_open", 9, "true; open@10 3; 0+ 3- 1t;"),
    ("open", "is_open", 10, "false; open@10 3; 0+ 3- 1t;"),
    ("open", "reset", 9, "-; closed 0; 0+ 3- 1t; open@10>closed"),
    ("open", "reset_all", 9, "-; closed 0; 0+ 3- 1t; open@10>closed"),

    ("half-open, probe", "admit", 12, "open until 22; half 3; 0+ 3- 1t;"),
    ("half-open, probe", "success", 12, "-; closed 0; 1+ 3- 1t; half>closed"),
    ("half-open, probe", "failure", 12, "tripped; open@22 4; 0+ 4- 2t; half>open@22"),
    ("half-open, probe", "drop", 12, "-; half 3; 0+ 3- 1t;"),
    ("half-open, probe", "record_success", 12, "-; closed 0; 1+ 3- 1t; half>closed"),
    ("half-open, probe", "record_failure", 12, "tripped; open@22 4; 0+ 4- 2t; half>open@22"),
    ("half-open, probe", "is_open", 12, "true; half 3; 0+ 3- 1t;"),
    ("half-open, probe", "reset", 12, "-; closed 0; 0+ 3- 1t; half>closed"),
    ("half-open, probe", "reset_all", 12, "-; closed 0; 0+ 3- 1t; half>closed"),

    ("half-open, other", "admit", 12, "open until 22; half 3; 0+ 3- 1t;"),
    ("half-open, other", "success", 12, "-; half 3; 1+ 3- 1t;"),
    ("half-open, other", "failure", 12, "counted 3; half 3; 0+ 4- 1t;"),
    ("half-open, other", "drop", 12, "-; half 3; 0+ 3- 1t;"),

    ("half-open, free", "admit", 12, "permit; half 3; 0+ 3- 1t;"),
    ("half-open, free", "success", 12, "-; half 3; 1+ 3- 1t;"),
    ("half-open, free", "failure", 12, "counted 3; half 3; 0+ 4- 1t;"),
    ("half-open, free", "drop", 12, "-; half 3; 0+ 3- 1t;"),
    ("half-open, free", "record_success", 12, "-; closed 0; 1+ 3- 1t; half>closed"),
    ("half-open, free", "record_failure", 12, "tripped; open@22 4; 0+ 4- 2t; half>open@22"),
    ("half-open, free", "is_open", 12, "false; half 3; 0+ 3- 1t;"),
    ("half-open, free", "reset", 12, "-; closed 0; 0+ 3- 1t; half>closed"),
];

#[test]
fn every_transition_matches_the_table() {
    for (state, verb, time, outcome) in TRANSITIONS {
        let mut fixture = BreakerFixture::in_state(state);
        assert_eq!(
            fixture.perform(verb, at(*time)),
            *outcome,
            "{state}: {verb} at {time}"
        );
    }
}

#[test]
fn only_a_dropped_probe_frees_the_probe_slot() {
    let mut fixture = BreakerFixture::in_state("half-open, probe");
    assert!(matches!(
        fixture.breaker.admit(NAME, at(10)),
        Admission::Open { .. }
    ));
    drop(fixture.permit.take());
    permit(&fixture.breaker, at(10)).record_success(at(10));
    assert_eq!(fixture.breaker.snapshot(NAME).state, CircuitState::Closed);

    let mut fixture = BreakerFixture::in_state("half-open, other");
    drop(fixture.permit.take());
    assert!(matches!(
        fixture.breaker.admit(NAME, at(10)),
        Admission::Open { .. }
    ));
}

#[test]
fn stale_results_are_only_counted() {
    let breaker = CircuitBreaker::new(settings(), Vec::new());
    let late: Vec<Permit> = (0..6).map(|_| permit(&breaker, at(0))).collect();
    for _ in 0..3 {
        breaker.record_failure(NAME, at(0));
    }
    let probe = permit(&breaker, at(10));
    let mut late = late.into_iter();
    late.next().unwrap().record_success(at(10));
    assert_eq!(breaker.snapshot(NAME).state, CircuitState::HalfOpen);
    probe.record_success(at(11));
    for permit in late.by_ref().take(4) {
        assert_eq!(permit.record_failure(at(12)), FailureOutcome::Counted(0));
    }
    let now = breaker.snapshot(NAME);
    assert_eq!(now.state, CircuitState::Closed);
    assert_eq!((now.successes, now.failures, now.trips), (2, 7, 1));

    breaker.record_failure(NAME, at(13));
    breaker.reset(NAME, at(13));
    let before_reset = late.next().unwrap();
    assert_eq!(
        before_reset.record_failure(at(13)),
        FailureOutcome::Counted(0)
    );
}

#[test]
fn an_open_circuit_never_turns_away_for_longer_than_a_cool_down() {
    let breaker = CircuitBreaker::new(settings(), Vec::new());
    for _ in 0..3 {
        breaker.record_failure(NAME, at(1_000_000));
    }
    let Admission::Open { until } = breaker.admit(NAME, at(5)) else {
        panic!("it is open");
    };
    assert_eq!(until, at(15));
    permit(&breaker, until).record_success(until);
}

#[test]
fn circuits_do_not_touch_each_other_and_are_reset_together() {
    let breaker = CircuitBreaker::new(settings(), Vec::new());
    for name in ["a", "b"] {
        for _ in 0..3 {
            breaker.record_failure(name, at(0));
        }
    }
    assert!(!breaker.is_open("c", at(0)));
    breaker.reset("a", at(0));
    assert!(!breaker.is_open("a", at(0)) && breaker.is_open("b", at(0)));
    breaker.reset_all(at(0));
    let all = breaker.snapshot_all();
    let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["a", "b"], "who only asks leaves no trace");
    assert!(all.iter().all(|one| one.state == CircuitState::Closed));
    assert!(all.iter().all(|one| one.failures == 3 && one.trips == 1));
}

#[test]
fn a_threshold_of_one_and_no_cool_down_work() {
    let settings = BreakerSettings {
        threshold: NonZeroU32::MIN,
        cool_down: Duration::ZERO,
    };
    let log = Arc::new(TransitionLog::default());
    let breaker = CircuitBreaker::new(settings, vec![Arc::clone(&log) as _]);
    assert_eq!(
        permit(&breaker, at(0)).record_failure(at(0)),
        FailureOutcome::Tripped
    );
    assert_eq!(breaker.record_failure(NAME, at(0)), FailureOutcome::Tripped);
    assert_eq!(
        permit(&breaker, at(0)).record_failure(at(0)),
        FailureOutcome::Tripped
    );
    let now = breaker.snapshot(NAME);
    assert_eq!((now.trips, now.consecutive_failures), (3, 3));
    assert_eq!(log.0.lock().unwrap().len(), 4, "three openings, one probe");
}

/// Calls the breaker from its callback, and panics if configured to.
#[derive(Debug)]
struct PanickingObserver {
    breaker: Mutex<Option<CircuitBreaker>>,
    panics_at: CircuitState,
}

impl BreakerObserver for PanickingObserver {
    fn on_transition(&self, name: &str, transition: &Transition) {
        let breaker = self.breaker.lock().unwrap().clone().unwrap();
        assert_eq!(breaker.snapshot(name).state, transition.to);
        assert_ne!(transition.to, self.panics_at, "as asked");
    }
}

#[test]
fn a_panicking_observer_does_not_block_the_probe() {
    let observer = Arc::new(PanickingObserver {
        breaker: Mutex::new(None),
        panics_at: CircuitState::HalfOpen,
    });
    let breaker = CircuitBreaker::new(settings(), vec![Arc::clone(&observer) as _]);
    *observer.breaker.lock().unwrap() = Some(breaker.clone());
    for _ in 0..3 {
        breaker.record_failure(NAME, at(0));
    }
    let panicked = catch_unwind(AssertUnwindSafe(|| drop(breaker.admit(NAME, at(10)))));
    assert!(panicked.is_err());
    permit(&breaker, at(10)).record_success(at(10));
    assert_eq!(breaker.snapshot(NAME).state, CircuitState::Closed);
    *observer.breaker.lock().unwrap() = None;
}

#[test]
fn a_snapshot_serializes_to_plain_json() {
    let breaker = CircuitBreaker::new(BreakerSettings::default(), Vec::new());
    for _ in 0..3 {
        breaker.record_failure(NAME, at(0));
    }
    assert_eq!(
        serde_json::to_value(breaker.snapshot(NAME)).unwrap(),
        serde_json::json!({
            "name": NAME,
            "state": "open",
            "until": "1970-01-01T00:00:30.000000Z",
            "consecutive_failures": 3,
            "successes": 0,
            "failures": 3,
            "trips": 1,
        })
    );
}

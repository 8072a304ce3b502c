//! Every move of a circuit, by table, and what the moves have in common.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use super::*;

const NAME: &str = "local/model";

/// Opens at three failures in a row, for ten seconds.
fn settings() -> BreakerSettings {
    BreakerSettings {
        threshold: NonZeroU32::MIN.saturating_add(2),
        cool_down: Duration::from_secs(10),
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

/// Remembers what it was told.
#[derive(Debug, Default)]
struct Log(Mutex<Vec<Transition>>);

impl BreakerObserver for Log {
    fn changed(&self, name: &str, transition: &Transition) {
        assert_eq!(name, NAME);
        self.0.lock().unwrap().push(*transition);
    }
}

/// A breaker in some state, and a permit of some age.
struct Scene {
    breaker: CircuitBreaker,
    log: Arc<Log>,
    permit: Option<Permit>,
    elsewhere: Vec<Permit>,
}

impl Scene {
    fn new() -> Self {
        let log = Arc::new(Log::default());
        let breaker = CircuitBreaker::new(settings(), vec![Arc::clone(&log) as _]);
        Self {
            permit: Some(permit(&breaker, at(0))),
            breaker,
            log,
            elsewhere: Vec::new(),
        }
    }

    /// The state the first column of the table names.
    fn in_state(state: &str) -> Self {
        let mut scene = Self::new();
        let failures = match state {
            "closed" => 0,
            "failed twice" => 2,
            _ => 3,
        };
        for _ in 0..failures {
            scene.breaker.record_failure(NAME, at(0));
        }
        match state {
            "closed" | "failed twice" | "open" => {}
            "half-open, probe" => scene.permit = Some(permit(&scene.breaker, at(10))),
            "half-open, other" => scene.elsewhere.push(permit(&scene.breaker, at(10))),
            "half-open, free" => drop(permit(&scene.breaker, at(10))),
            other => panic!("no state {other}"),
        }
        scene.log.0.lock().unwrap().clear();
        scene
    }

    /// Does what the second column says and shows what came of it.
    fn play(&mut self, verb: &str, now: Timestamp) -> String {
        let mut held = self.permit.take();
        let breaker = &self.breaker;
        let answer = match verb {
            "admit" => match breaker.admit(NAME, now) {
                Admission::Permit(permit) => {
                    self.elsewhere.push(permit);
                    "permit".to_owned()
                }
                Admission::Open { until } => format!("open until {}", seconds(until)),
            },
            "success" => {
                held.take().unwrap().success(now);
                "-".to_owned()
            }
            "failure" => shown(held.take().unwrap().failure(now)),
            "drop" => {
                drop(held.take());
                "-".to_owned()
            }
            "record_success" => {
                breaker.record_success(NAME, now);
                "-".to_owned()
            }
            "record_failure" => shown(breaker.record_failure(NAME, now)),
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
        let told: Vec<String> = std::mem::take(&mut *self.log.0.lock().unwrap())
            .iter()
            .map(|told| format!(" {}>{}", state(told.from), state(told.to)))
            .collect();
        let now = breaker.snapshot(NAME);
        let line = format!(
            "{answer}; {} {}; {}+ {}- {}t;{}",
            state(now.state),
            now.consecutive_failures,
            now.successes,
            now.failures,
            now.trips,
            told.concat()
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

fn state(state: CircuitState) -> String {
    match state {
        CircuitState::Closed => "closed".to_owned(),
        CircuitState::Open { until } => format!("open@{}", seconds(until)),
        CircuitState::HalfOpen => "half".to_owned(),
    }
}

fn shown(failure: Failure) -> String {
    match failure {
        Failure::Tripped => "tripped".to_owned(),
        Failure::Counted(number) => format!("counted {number}"),
    }
}

/// State, verb, time, and what comes of it: the answer; state and failures in a row; successes,
/// failures and trips; what observers are told.
#[rustfmt::skip]
const MOVES: &[(&str, &str, i64, &str)] = &[
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
fn every_move_is_as_the_table_says() {
    for (state, verb, time, outcome) in MOVES {
        let mut scene = Scene::in_state(state);
        assert_eq!(
            scene.play(verb, at(*time)),
            *outcome,
            "{state}: {verb} at {time}"
        );
    }
}

#[test]
fn a_dropped_probe_lets_another_be_the_probe_and_a_dropped_stranger_does_not() {
    let mut scene = Scene::in_state("half-open, probe");
    assert!(matches!(
        scene.breaker.admit(NAME, at(10)),
        Admission::Open { .. }
    ));
    drop(scene.permit.take());
    permit(&scene.breaker, at(10)).success(at(10));
    assert_eq!(scene.breaker.snapshot(NAME).state, CircuitState::Closed);

    let mut scene = Scene::in_state("half-open, other");
    drop(scene.permit.take());
    assert!(matches!(
        scene.breaker.admit(NAME, at(10)),
        Admission::Open { .. }
    ));
}

#[test]
fn results_of_an_older_generation_are_counted_and_nothing_else() {
    let breaker = CircuitBreaker::new(settings(), Vec::new());
    let late: Vec<Permit> = (0..6).map(|_| permit(&breaker, at(0))).collect();
    for _ in 0..3 {
        breaker.record_failure(NAME, at(0));
    }
    let probe = permit(&breaker, at(10));
    let mut late = late.into_iter();
    late.next().unwrap().success(at(10));
    assert_eq!(breaker.snapshot(NAME).state, CircuitState::HalfOpen);
    probe.success(at(11));
    for permit in late.by_ref().take(4) {
        assert_eq!(permit.failure(at(12)), Failure::Counted(0));
    }
    let now = breaker.snapshot(NAME);
    assert_eq!(now.state, CircuitState::Closed);
    assert_eq!((now.successes, now.failures, now.trips), (2, 7, 1));

    breaker.record_failure(NAME, at(13));
    breaker.reset(NAME, at(13));
    let before_reset = late.next().unwrap();
    assert_eq!(before_reset.failure(at(13)), Failure::Counted(0));
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
    permit(&breaker, until).success(until);
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
    let log = Arc::new(Log::default());
    let breaker = CircuitBreaker::new(settings, vec![Arc::clone(&log) as _]);
    assert_eq!(permit(&breaker, at(0)).failure(at(0)), Failure::Tripped);
    assert_eq!(breaker.record_failure(NAME, at(0)), Failure::Tripped);
    assert_eq!(permit(&breaker, at(0)).failure(at(0)), Failure::Tripped);
    let now = breaker.snapshot(NAME);
    assert_eq!((now.trips, now.consecutive_failures), (3, 3));
    assert_eq!(log.0.lock().unwrap().len(), 4, "three openings, one probe");
}

/// Calls the breaker when told, and panics if asked to.
#[derive(Debug)]
struct Meddler {
    breaker: Mutex<Option<CircuitBreaker>>,
    panics_at: CircuitState,
}

impl BreakerObserver for Meddler {
    fn changed(&self, name: &str, transition: &Transition) {
        let breaker = self.breaker.lock().unwrap().clone().unwrap();
        assert_eq!(breaker.snapshot(name).state, transition.to);
        assert_ne!(transition.to, self.panics_at, "as asked");
    }
}

#[test]
fn an_observer_may_call_the_breaker_and_its_panic_strands_no_probe() {
    let meddler = Arc::new(Meddler {
        breaker: Mutex::new(None),
        panics_at: CircuitState::HalfOpen,
    });
    let breaker = CircuitBreaker::new(settings(), vec![Arc::clone(&meddler) as _]);
    *meddler.breaker.lock().unwrap() = Some(breaker.clone());
    for _ in 0..3 {
        breaker.record_failure(NAME, at(0));
    }
    let panicked = catch_unwind(AssertUnwindSafe(|| drop(breaker.admit(NAME, at(10)))));
    assert!(panicked.is_err());
    permit(&breaker, at(10)).success(at(10));
    assert_eq!(breaker.snapshot(NAME).state, CircuitState::Closed);
    *meddler.breaker.lock().unwrap() = None;
}

#[test]
fn what_is_shown_is_plain_json() {
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

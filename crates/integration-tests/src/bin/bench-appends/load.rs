//! One interval of load: the number, speed and cost of acknowledged appends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cleveragents_domain::event::payloads::ActorErrored;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{NamespacedName, NewEvent, StreamId};
use cleveragents_integration_tests::bare::BareLoop;
use cleveragents_ports::system::SystemIds;
use cleveragents_ports::{Ids, StoreError, StoreHandle, StoreOperation, StreamHead};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// Pads the payload to 200 bytes.
const FILLER: usize = 200 - r#"{"text":""}"#.len();

#[derive(Debug, Clone)]
pub(crate) struct LoadSample {
    /// Acknowledged appends per second.
    pub(crate) rate: f64,
    /// Microseconds from the call to its acknowledgement.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// Microseconds of this process's CPU time, user and system, per append.
    pub(crate) cpu: f64,
    /// The part of it spent in user mode.
    pub(crate) user: f64,
    /// The bytes that this process wrote per append, and the number of calls.
    pub(crate) bytes: f64,
    pub(crate) writes: f64,
}

impl LoadSample {
    /// The median of each number; they need not come from one interval.
    pub(crate) fn median(slices: Vec<Self>) -> Self {
        let middle = |field: fn(&Self) -> f64| {
            let mut values: Vec<f64> = slices.iter().map(field).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        Self {
            rate: middle(|slice| slice.rate),
            p50: middle(|slice| slice.p50),
            p99: middle(|slice| slice.p99),
            cpu: middle(|slice| slice.cpu),
            user: middle(|slice| slice.user),
            bytes: middle(|slice| slice.bytes),
            writes: middle(|slice| slice.writes),
        }
    }

    pub(crate) fn json(&self, peer: f64) -> Value {
        json!({
            "appends_per_second": self.rate,
            "ratio": self.rate / peer,
            "p50_micros": self.p50,
            "p99_micros": self.p99,
            "cpu_micros_per_append": self.cpu,
            "user_cpu_micros_per_append": self.user,
            "bytes_per_append": self.bytes,
            "write_calls_per_append": self.writes,
        })
    }
}

pub(crate) fn run_bare_loop(bare: &BareLoop, span: Duration) -> LoadSample {
    let payload = serde_json::to_string(&payload()).expect("a payload");
    measure(|| repeat(span, || bare.commit_one(&payload)))
}

/// Runs `writers` threads that append through the store for `span`, each to its own stream.
pub(crate) fn run_store(store: &StoreHandle, writers: usize, span: Duration) -> LoadSample {
    let payload = Arc::new(payload());
    let write = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        let stream = StreamId::Plan(PlanId::new(SystemIds.next()));
        repeat(span, || {
            let payload = Arc::clone(&payload);
            let written = store.write(StoreOperation::new(&SystemIds, "bench.append"), move |tx| {
                let event = NewEvent::of("bench", &*payload).map_err(StoreError::internal)?;
                tx.append(stream, &[event])
            });
            let _: StreamHead = runtime
                .block_on(written)
                .unwrap_or_else(|error: StoreError| panic!("{error}"));
        })
    };
    measure(|| {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..writers).map(|_| scope.spawn(write)).collect();
            let spans = threads.into_iter().map(|thread| thread.join());
            spans.flat_map(|spans| spans.expect("a writer")).collect()
        })
    })
}

fn payload() -> ActorErrored {
    ActorErrored {
        actor: NamespacedName::built_in("bench"),
        step: 1,
        reason: "x".repeat(FILLER),
    }
}

/// Calls `append` until `span` is over; returns the duration of each call.
fn repeat(span: Duration, mut append: impl FnMut()) -> Vec<Duration> {
    let started = Instant::now();
    let mut spans = Vec::new();
    while started.elapsed() < span {
        let called = Instant::now();
        append();
        spans.push(called.elapsed());
    }
    spans
}

fn measure(load: impl FnOnce() -> Vec<Duration>) -> LoadSample {
    let (cpu, user, (bytes, writes)) = (cpu_time(), user_time(), write_counters());
    let started = Instant::now();
    let mut spans = load();
    let elapsed = started.elapsed();
    let (bytes, writes) = (write_counters().0 - bytes, write_counters().1 - writes);
    let (cpu, user) = (cpu_time() - cpu, user_time() - user);
    spans.sort_unstable();
    let appends = spans.len() as f64;
    let percentile = |part: usize| spans[(spans.len() - 1) * part / 100].as_secs_f64() * 1e6;
    LoadSample {
        rate: appends / elapsed.as_secs_f64(),
        p50: percentile(50),
        p99: percentile(99),
        cpu: cpu * 1e6 / appends,
        user: user * 1e6 / appends,
        bytes: bytes / appends,
        writes: writes / appends,
    }
}

/// CPU seconds used by all threads of this process.
fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The user-mode part, in the hundredths of a second that Linux reports.
fn user_time() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks = text
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.split(' ').nth(11));
    ticks
        .and_then(|ticks| ticks.parse::<f64>().ok())
        .unwrap_or(0.0)
        / 100.0
}

/// Bytes and calls that this process has written so far.
fn write_counters() -> (f64, f64) {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.trim().parse().ok())
            .unwrap_or(0.0)
    };
    (field("wchar:"), field("syscw:"))
}

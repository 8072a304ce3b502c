//! Waiting for visible events, with a timeout.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::world::TestWorld;

/// Longer than anything takes on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);

/// Reads a plan's journal while it is written.
pub(crate) struct Follower {
    child: Child,
    lines: Receiver<Value>,
}

impl Follower {
    /// Follows from the start of the journal.
    pub(crate) fn start(world: &TestWorld, plan: &str) -> Self {
        let words = ["plan", "log", plan, "--follow", "--events"];
        Self::from_child(world.start(&words))
    }

    /// Follows the output of a process that was started with `--events`.
    pub(crate) fn from_child(mut child: Child) -> Self {
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let event = serde_json::from_str(&line).unwrap_or(Value::Null);
                if sender.send(event).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    /// Waits for the next event of this kind.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, kind: &str) -> Value {
        self.wait_until(kind, |event| event["kind"] == kind)
    }

    #[track_caller]
    pub(crate) fn wait_until(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + TIMEOUT;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(event) if is_it(&event) => return event,
                Ok(_) => {}
                Err(error) => panic!("{what} was not told: {error}"),
            }
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until a condition is true.
#[track_caller]
pub(crate) fn wait_until_true(what: &str, is_it: impl Fn() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !is_it() {
        assert!(Instant::now() < end, "{what} never came true");
        thread::park_timeout(Duration::from_millis(10));
    }
}

/// Sleeps, so that an interruption happens at a random moment.
pub(crate) fn sleep_for(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        thread::park_timeout(end.saturating_duration_since(Instant::now()));
    }
}

/// Returns whether a process runs whose command line contains this text.
pub(crate) fn is_process_running(text: &str) -> bool {
    let Ok(processes) = Path::new("/proc").read_dir() else {
        return false;
    };
    processes.flatten().any(|process| {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    })
}

/// Pseudo-random numbers, the same in every run.
pub(crate) struct TestRng(u64);

impl TestRng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Returns a number from 0 up to but not including `end`.
    pub(crate) fn next_below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

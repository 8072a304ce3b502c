//! Waits for a condition rather than for a fixed time.

use std::time::{Duration, Instant};

const POLL_INTERVAL: Duration = Duration::from_millis(2);
const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns once `condition` holds.
///
/// # Panics
///
/// If it does not hold within a minute; `what` names the condition.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < TIMEOUT, "waited in vain: {what}");
        std::thread::park_timeout(POLL_INTERVAL);
    }
}

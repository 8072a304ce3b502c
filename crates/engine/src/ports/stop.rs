//! The word to stop, for work that blocks a thread.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Why work has to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StopReason {
    #[error("it was cancelled")]
    Cancelled,
    #[error("it took longer than it may")]
    TimedOut,
    #[error("its plan has another owner now")]
    LeaseLost,
    /// Whoever goes on finds the work as if this had never begun.
    #[error("it was interrupted")]
    Interrupted,
    /// Whoever goes on, with a larger budget, finds the work as if this had never begun.
    #[error("its plan's time is up")]
    OutOfTime,
}

impl StopReason {
    /// Whether what was begun is taken back, to be begun again by whoever goes on.
    pub const fn requires_rollback(self) -> bool {
        matches!(self, Self::Interrupted | Self::OutOfTime)
    }
}

/// Says to whoever holds a clone that it should stop. The first reason given stays.
#[derive(Debug, Clone, Default)]
pub struct StopSignal(Arc<StopState>);

#[derive(Debug, Default)]
struct StopState {
    reason: Mutex<Option<StopReason>>,
    changed: Condvar,
}

impl StopSignal {
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells all holders to stop.
    pub fn stop(&self, why: StopReason) {
        self.reason().get_or_insert(why);
        self.0.changed.notify_all();
    }

    /// Goes on, or not.
    pub fn check(&self) -> Result<(), StopReason> {
        match *self.reason() {
            Some(why) => Err(why),
            None => Ok(()),
        }
    }

    /// Waits until the word is given, at most this long.
    pub fn wait(&self, timeout: Duration) -> Option<StopReason> {
        self.wait_unless(timeout, || false)
    }

    /// Waits until the word is given, at most this long, and only while there is a reason to:
    /// when `done` may have become true, [`StopSignal::wake_waiters`] makes all who wait look again.
    pub fn wait_unless(&self, timeout: Duration, done: impl Fn() -> bool) -> Option<StopReason> {
        let begun = Instant::now();
        let mut reason = self.reason();
        while reason.is_none() && !done() {
            let left = timeout.saturating_sub(begun.elapsed());
            if left.is_zero() {
                break;
            }
            let waited = self.0.changed.wait_timeout(reason, left);
            reason = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *reason
    }

    /// Makes those in [`StopSignal::wait_unless`] look whether they are done; nobody is told to stop.
    pub fn wake_waiters(&self) {
        // Who waits has looked and sleeps, or looks after this.
        drop(self.reason());
        self.0.changed.notify_all();
    }

    /// A panic elsewhere leaves the word as good as it was.
    fn reason(&self) -> MutexGuard<'_, Option<StopReason>> {
        self.0.reason.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finished_waiter_returns_without_a_stop() {
        let stop = StopSignal::new();
        let done = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let waiter = {
            let (stop, done) = (stop.clone(), Arc::clone(&done));
            std::thread::spawn(move || {
                stop.wait_unless(Duration::MAX, || {
                    done.load(std::sync::atomic::Ordering::SeqCst)
                })
            })
        };
        done.store(true, std::sync::atomic::Ordering::SeqCst);
        stop.wake_waiters();
        assert_eq!(waiter.join().unwrap(), None);
        assert_eq!(stop.check(), Ok(()));
    }

    #[test]
    fn the_first_reason_stays_and_wakes_waiters() {
        let stop = StopSignal::new();
        assert_eq!(stop.check(), Ok(()));
        assert_eq!(stop.wait(Duration::ZERO), None);
        let waiter = {
            let stop = stop.clone();
            std::thread::spawn(move || stop.wait(Duration::from_secs(600)))
        };
        stop.stop(StopReason::TimedOut);
        stop.stop(StopReason::Cancelled);
        assert_eq!(waiter.join().unwrap(), Some(StopReason::TimedOut));
        assert_eq!(stop.check(), Err(StopReason::TimedOut));
    }
}

//! The stop signal for work that blocks a thread.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Reason for stopping work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StopReason {
    #[error("it was cancelled")]
    Cancelled,
    #[error("it exceeded its time limit")]
    TimedOut,
    #[error("another process runs the plan now")]
    LeaseLost,
    /// The work is undone, so that the next owner can start it again.
    #[error("it was interrupted")]
    Interrupted,
    /// The work is undone, so that the next owner can start it again with a larger budget.
    #[error("the plan's time is used up")]
    OutOfTime,
}

impl StopReason {
    /// Whether started work is undone, so that the next owner starts it again.
    pub const fn requires_rollback(self) -> bool {
        matches!(self, Self::Interrupted | Self::OutOfTime)
    }
}

/// Asks all holders of a clone to stop. The first reason is kept.
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

    /// Sends the stop signal to all holders.
    pub fn stop(&self, why: StopReason) {
        self.reason().get_or_insert(why);
        self.0.changed.notify_all();
    }

    /// Fails with the reason if the stop signal was sent.
    pub fn check(&self) -> Result<(), StopReason> {
        match *self.reason() {
            Some(why) => Err(why),
            None => Ok(()),
        }
    }

    /// Waits for the stop signal, for at most `timeout`.
    pub fn wait(&self, timeout: Duration) -> Option<StopReason> {
        self.wait_unless(timeout, || false)
    }

    /// Waits for the stop signal, for at most `timeout`, and only until `done` returns true. After
    /// `done` may have become true, call [`StopSignal::wake_waiters`] to make the waiters check it.
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

    /// Makes waiters in [`StopSignal::wait_unless`] check `done` again, without a stop signal.
    pub fn wake_waiters(&self) {
        // Taking the lock prevents a lost wakeup: a waiter is either already waiting, or checks
        // `done` after this.
        drop(self.reason());
        self.0.changed.notify_all();
    }

    /// Ignores poisoning: a panic elsewhere cannot leave the reason inconsistent.
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

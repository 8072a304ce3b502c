//! The word to stop, for work that blocks a thread.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Why work has to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
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

impl Stopped {
    /// Whether what was begun is taken back, to be begun again by whoever goes on.
    pub const fn takes_back(self) -> bool {
        matches!(self, Self::Interrupted | Self::OutOfTime)
    }
}

/// Says to whoever holds a clone that it should stop. The first reason given stays.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    reason: Mutex<Option<Stopped>>,
    given: Condvar,
}

impl Stop {
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells all holders to stop.
    pub fn stop(&self, why: Stopped) {
        self.reason().get_or_insert(why);
        self.0.given.notify_all();
    }

    /// Goes on, or not.
    pub fn check(&self) -> Result<(), Stopped> {
        match *self.reason() {
            Some(why) => Err(why),
            None => Ok(()),
        }
    }

    /// Waits until the word is given, at most this long.
    pub fn wait(&self, patience: Duration) -> Option<Stopped> {
        self.wait_unless(patience, || false)
    }

    /// Waits until the word is given, at most this long, and only while there is a reason to:
    /// when `done` may have become true, [`Stop::nudge`] makes all who wait look again.
    pub fn wait_unless(&self, patience: Duration, done: impl Fn() -> bool) -> Option<Stopped> {
        let begun = Instant::now();
        let mut reason = self.reason();
        while reason.is_none() && !done() {
            let left = patience.saturating_sub(begun.elapsed());
            if left.is_zero() {
                break;
            }
            let waited = self.0.given.wait_timeout(reason, left);
            reason = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *reason
    }

    /// Makes those in [`Stop::wait_unless`] look whether they are done; nobody is told to stop.
    pub fn nudge(&self) {
        // Who waits has looked and sleeps, or looks after this.
        drop(self.reason());
        self.0.given.notify_all();
    }

    /// A panic elsewhere leaves the word as good as it was.
    fn reason(&self) -> MutexGuard<'_, Option<Stopped>> {
        self.0.reason.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_done_waits_no_longer_and_is_not_told_to_stop() {
        let stop = Stop::new();
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
        stop.nudge();
        assert_eq!(waiter.join().unwrap(), None);
        assert_eq!(stop.check(), Ok(()));
    }

    #[test]
    fn the_first_reason_stays_and_wakes_whoever_waits() {
        let stop = Stop::new();
        assert_eq!(stop.check(), Ok(()));
        assert_eq!(stop.wait(Duration::ZERO), None);
        let waiter = {
            let stop = stop.clone();
            std::thread::spawn(move || stop.wait(Duration::from_secs(600)))
        };
        stop.stop(Stopped::TimedOut);
        stop.stop(Stopped::Cancelled);
        assert_eq!(waiter.join().unwrap(), Some(Stopped::TimedOut));
        assert_eq!(stop.check(), Err(Stopped::TimedOut));
    }
}

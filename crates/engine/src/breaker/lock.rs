//! The lock behind a breaker, exchangeable so that model checkers can put theirs in its place.

use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};

/// A value that one caller at a time may use.
///
/// The only way to the value is a closure, so nothing of it can be kept after the lock is given
/// back. Model checkers implement this with the mutex whose every acquisition they schedule; what
/// they then drive is the breaker as it is shipped.
pub trait BreakerLock: Debug + Send + Sync {
    /// Where a value of type `T` is kept.
    type Of<T: Debug + Send>: Send + Sync;

    fn new<T: Debug + Send>(value: T) -> Self::Of<T>;

    /// Runs the closure while nobody else runs one on the same value.
    fn with<T: Debug + Send, R>(held: &Self::Of<T>, work: impl FnOnce(&mut T) -> R) -> R;
}

/// The standard library's mutex.
#[derive(Debug, Clone, Copy)]
pub struct StdLock;

impl BreakerLock for StdLock {
    type Of<T: Debug + Send> = Mutex<T>;

    fn new<T: Debug + Send>(value: T) -> Mutex<T> {
        Mutex::new(value)
    }

    fn with<T: Debug + Send, R>(held: &Mutex<T>, work: impl FnOnce(&mut T) -> R) -> R {
        // No foreign code runs under the lock and each change is whole or not begun, so what a
        // panic left behind is sound.
        let mut value = held.lock().unwrap_or_else(PoisonError::into_inner);
        work(&mut value)
    }
}

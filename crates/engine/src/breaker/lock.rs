//! The lock of a breaker, exchangeable so that model checkers can use their own.

use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};

/// A value with exclusive access.
///
/// The value is reachable only through a closure, so no reference to it can outlive the lock. Model
/// checkers implement this with a mutex whose every acquisition they schedule; what they check is
/// the breaker as shipped.
pub trait BreakerLock: Debug + Send + Sync {
    /// Holds a value of type `T`.
    type Of<T: Debug + Send>: Send + Sync;

    fn new<T: Debug + Send>(value: T) -> Self::Of<T>;

    /// Runs the closure with exclusive access to the value.
    fn with<T: Debug + Send, R>(held: &Self::Of<T>, work: impl FnOnce(&mut T) -> R) -> R;
}

#[derive(Debug, Clone, Copy)]
pub struct StdLock;

impl BreakerLock for StdLock {
    type Of<T: Debug + Send> = Mutex<T>;

    fn new<T: Debug + Send>(value: T) -> Mutex<T> {
        Mutex::new(value)
    }

    fn with<T: Debug + Send, R>(held: &Mutex<T>, work: impl FnOnce(&mut T) -> R) -> R {
        // No foreign code runs under the lock and no change can be left half done, so the value is
        // valid even after a panic.
        let mut value = held.lock().unwrap_or_else(PoisonError::into_inner);
        work(&mut value)
    }
}

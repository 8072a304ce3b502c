//! A value that is built when it is first needed.

use std::sync::{Mutex, PoisonError};

/// A value shared by all requests of a process. Safe for concurrent calls (law 6).
#[derive(Debug)]
pub(crate) struct BuildOnce<T>(Mutex<Option<T>>);

impl<T> Default for BuildOnce<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T: Clone> BuildOnce<T> {
    /// Returns the value, and builds it if there is none. A failed attempt leaves none, so the next
    /// caller tries again. `build` must not wait for anything.
    pub(crate) fn get_or_build<E>(&self, build: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        // Locked while it builds: two callers must not build two values. The lock is held only for
        // a moment and never across an `.await` (law 7).
        let mut value = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(built) = &*value {
            return Ok(built.clone());
        }
        Ok(value.insert(build()?).clone())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn concurrent_callers_share_one_value() {
        const CALLERS: usize = 4;
        for _ in 0..50 {
            let (once, barrier) = (BuildOnce::default(), Barrier::new(CALLERS));
            let number = AtomicUsize::new(0);
            let build = || {
                // Lets the other callers run, so that one that does not wait builds a second value.
                (0..CALLERS).for_each(|_| thread::yield_now());
                Ok::<_, ()>(number.fetch_add(1, Ordering::SeqCst))
            };
            let call = || {
                barrier.wait();
                once.get_or_build(build).unwrap()
            };
            let values: Vec<usize> = thread::scope(|scope| {
                let callers: Vec<_> = (0..CALLERS).map(|_| scope.spawn(call)).collect();
                callers.into_iter().map(|it| it.join().unwrap()).collect()
            });
            assert_eq!(values, [0; CALLERS]);
        }
    }

    #[test]
    fn a_failed_attempt_is_repeated() {
        let once = BuildOnce::default();
        assert_eq!(
            once.get_or_build(|| Err::<u8, _>("no settings")),
            Err("no settings")
        );
        assert_eq!(once.get_or_build(|| Ok::<_, &str>(7)), Ok(7));
        assert_eq!(once.get_or_build(|| Err("not called")), Ok(7));
    }
}

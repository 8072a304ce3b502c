//! How much is asked of one provider: so many requests at once, so many in any minute.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

const MINUTE: Duration = Duration::from_secs(60);

/// What every request to a provider passes first.
#[derive(Debug)]
pub(crate) struct Gate {
    places: Arc<Semaphore>,
    pace: Option<Pace>,
}

/// A place among the requests under way; it is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Gate {
    pub(crate) fn new(concurrency: u32, requests_per_minute: Option<u32>) -> Self {
        let places = usize::try_from(concurrency.max(1)).unwrap_or(usize::MAX);
        Self {
            places: Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS))),
            pace: requests_per_minute.map(Pace::new),
        }
    }

    /// Waits for a place, then for the minute to have room.
    pub(crate) async fn enter(&self) -> Place {
        // The semaphore is never closed, so there is always a permit in the end.
        let permit = Arc::clone(&self.places).acquire_owned().await.ok();
        if let Some(pace) = &self.pace {
            let moment = pace.reserve(Instant::now());
            tokio::time::sleep_until(moment).await;
        }
        Place { _permit: permit }
    }
}

/// So many moments in any minute. One verb, under one lock: two callers never get the same moment.
#[derive(Debug)]
struct Pace {
    per_minute: usize,
    /// The newest moments given, oldest first, at most `per_minute` of them.
    given: Mutex<VecDeque<Instant>>,
}

impl Pace {
    fn new(per_minute: u32) -> Self {
        Self {
            per_minute: usize::try_from(per_minute.max(1)).unwrap_or(usize::MAX),
            given: Mutex::new(VecDeque::new()),
        }
    }

    /// The first moment from `now` on at which one more request fits. It is taken, even if nobody
    /// comes.
    fn reserve(&self, now: Instant) -> Instant {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let mut moment = now;
        if given.len() == self.per_minute
            && let Some(oldest) = given.pop_front()
        {
            moment = moment.max(oldest + MINUTE);
        }
        if let Some(newest) = given.back() {
            moment = moment.max(*newest);
        }
        given.push_back(moment);
        moment
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_minute_has_more_than_was_allowed_however_many_ask() {
        let pace = Pace::new(7);
        let start = Instant::now();
        let ask = || -> Vec<Instant> {
            (0..50_u64)
                .map(|step| pace.reserve(start + Duration::from_secs(step)))
                .collect()
        };
        let mut moments: Vec<Instant> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .collect()
        });
        moments.sort();
        assert_eq!(moments.len(), 200);
        for window in moments.windows(8) {
            assert!(window[7] - window[0] >= MINUTE, "{window:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_is_free_again_when_it_is_dropped() {
        let gate = Gate::new(2, None);
        let (one, _two) = (gate.enter().await, gate.enter().await);
        let third = tokio::time::timeout(Duration::from_secs(1), gate.enter()).await;
        assert!(third.is_err());
        drop(one);
        gate.enter().await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_pace_is_kept() {
        let gate = Gate::new(10, Some(2));
        let start = Instant::now();
        for _ in 0..5 {
            gate.enter().await;
        }
        assert_eq!(start.elapsed().as_secs(), 120);
    }
}

//! Limits the requests to one provider: the number of concurrent requests and the number per
//! minute.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

const MINUTE: Duration = Duration::from_secs(60);

/// Every request to a provider passes this limiter first.
#[derive(Debug)]
pub(crate) struct RequestLimiter {
    permits: Arc<Semaphore>,
    rate_limiter: Option<MinuteRateLimiter>,
}

/// Permission for one concurrent request; released when dropped.
#[derive(Debug)]
pub(crate) struct RequestPermit {
    _permit: Option<OwnedSemaphorePermit>,
}

impl RequestLimiter {
    pub(crate) fn new(concurrency: u32, requests_per_minute: Option<u32>) -> Self {
        // At least one: a limit of 0 would make every request wait without an end.
        let permits = usize::try_from(concurrency.max(1)).unwrap_or(usize::MAX);
        Self {
            permits: Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS))),
            rate_limiter: requests_per_minute.map(MinuteRateLimiter::new),
        }
    }

    /// Waits for a permit, then for the rate limit.
    pub(crate) async fn acquire(&self) -> RequestPermit {
        // The semaphore is never closed, so a permit is eventually granted.
        // The permit comes first. A reserved start time counts even if the caller ends while it
        // waits.
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
        if let Some(pace) = &self.rate_limiter {
            let start = pace.reserve(Instant::now());
            // Reserved under the lock, waited for without it (law 7).
            tokio::time::sleep_until(start).await;
        }
        RequestPermit { _permit: permit }
    }
}

/// Grants a limited number of start times per minute. Reserving is one operation under one lock, so
/// two callers never get the same start time.
#[derive(Debug)]
struct MinuteRateLimiter {
    per_minute: usize,
    /// The newest granted start times, oldest first, at most `per_minute` of them.
    granted: Mutex<VecDeque<Instant>>,
}

impl MinuteRateLimiter {
    fn new(per_minute: u32) -> Self {
        Self {
            per_minute: usize::try_from(per_minute.max(1)).unwrap_or(usize::MAX),
            granted: Mutex::new(VecDeque::new()),
        }
    }

    /// Reserves the first start time from `now` on that fits the limit. It counts even if the
    /// caller goes away.
    fn reserve(&self, now: Instant) -> Instant {
        let mut granted = self.granted.lock().unwrap_or_else(PoisonError::into_inner);
        let mut start = now;
        if granted.len() == self.per_minute
            && let Some(oldest) = granted.pop_front()
        {
            start = start.max(oldest + MINUTE);
        }
        // Never before an earlier grant: the queue must stay in the order of time.
        if let Some(newest) = granted.back() {
            start = start.max(*newest);
        }
        granted.push_back(start);
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_minute_exceeds_the_limit_under_concurrency() {
        let pace = MinuteRateLimiter::new(7);
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
    async fn a_dropped_permit_is_released() {
        let gate = RequestLimiter::new(2, None);
        let (one, _two) = (gate.acquire().await, gate.acquire().await);
        let third = tokio::time::timeout(Duration::from_secs(1), gate.acquire()).await;
        assert!(third.is_err());
        drop(one);
        gate.acquire().await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_rate_limit_is_kept() {
        let gate = RequestLimiter::new(10, Some(2));
        let start = Instant::now();
        for _ in 0..5 {
            gate.acquire().await;
        }
        assert_eq!(start.elapsed().as_secs(), 120);
    }
}

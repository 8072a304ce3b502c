//! Decides whether a failed call is retried.
//!
//! Pure: the caller waits, reads the clock and supplies randomness. This is about one call that a
//! provider refused. How often a whole step of a plan may be retried is set by the profile, see
//! [`recovery`](crate::error_history).

use std::num::NonZeroU32;
use std::time::Duration;

use cleveragents_ports::models::ModelError;

/// Number and timing of retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Maximum number of attempts, including the first.
    pub max_attempts: NonZeroU32,
    /// Maximum pause after the first failure; it doubles with each further one.
    pub initial_backoff: Duration,
    /// Upper bound of the doubled pause.
    pub max_backoff: Duration,
    /// Longest wait a provider may ask for. If it asks for more, the retry is left to the caller.
    pub max_retry_after: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: NonZeroU32::MIN.saturating_add(4),
            initial_backoff: Duration::from_millis(500),
            max_backoff: Duration::from_secs(60),
            max_retry_after: Duration::from_secs(60),
        }
    }
}

/// A failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptFailure {
    pub kind: AttemptFailureKind,
    /// When the provider accepts requests again.
    pub retry_after: Option<Duration>,
}

/// Whether the same call may succeed later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptFailureKind {
    Transient,
    Permanent,
}

/// Whether there is another attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryDecision {
    /// After this pause.
    After(Duration),
    GiveUp(GiveUpReason),
}

/// Reason for no further attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GiveUpReason {
    /// The same call would fail the same way.
    Permanent,
    /// All attempts were made.
    Exhausted,
    /// The provider asked for a longer wait than allowed here. Try again after this time.
    RetryLater(Duration),
}

impl From<&ModelError> for AttemptFailure {
    fn from(error: &ModelError) -> Self {
        Self {
            kind: if error.kind.is_transient() {
                AttemptFailureKind::Transient
            } else {
                AttemptFailureKind::Permanent
            },
            retry_after: error.retry_after,
        }
    }
}

impl RetryPolicy {
    /// Decides what to do after failure number `attempt` (starting at 1), with `random` from [0,
    /// 1).
    ///
    /// The pause is a random part of a span that doubles with each failure ("full jitter"), so that
    /// callers that failed together do not retry together. If the provider named a time, the pause
    /// is added to it: never earlier than asked, and still spread out.
    pub fn decide(&self, attempt: u32, failed: &AttemptFailure, random: f64) -> RetryDecision {
        if failed.kind == AttemptFailureKind::Permanent {
            return RetryDecision::GiveUp(GiveUpReason::Permanent);
        }
        let retry_after = failed.retry_after.unwrap_or_default();
        if retry_after > self.max_retry_after {
            return RetryDecision::GiveUp(GiveUpReason::RetryLater(retry_after));
        }
        if attempt >= self.max_attempts.get() {
            return RetryDecision::GiveUp(GiveUpReason::Exhausted);
        }
        let pause = self.backoff_limit(attempt).mul_f64(clamp_fraction(random));
        RetryDecision::After(retry_after.saturating_add(pause))
    }

    /// Returns the maximum pause after failure number `attempt`.
    fn backoff_limit(&self, attempt: u32) -> Duration {
        2_u32
            .checked_pow(attempt.saturating_sub(1))
            .map_or(Duration::MAX, |factor| {
                self.initial_backoff.saturating_mul(factor)
            })
            .min(self.max_backoff)
    }
}

/// Clamps the caller's number to a valid fraction.
fn clamp_fraction(random: f64) -> f64 {
    if random.is_finite() {
        random.clamp(0.0, 1.0)
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use cleveragents_ports::models::ModelErrorKind;

    const SECOND: Duration = Duration::from_secs(1);

    fn transient(retry_after: Option<Duration>) -> AttemptFailure {
        AttemptFailure {
            kind: AttemptFailureKind::Transient,
            retry_after,
        }
    }

    #[test]
    fn pauses_double_up_to_the_maximum() {
        let policy = RetryPolicy {
            max_attempts: NonZeroU32::new(100).unwrap(),
            ..RetryPolicy::default()
        };
        let longest = [
            (1, 500),
            (2, 1_000),
            (3, 2_000),
            (7, 32_000),
            (8, 60_000),
            (40, 60_000),
            (99, 60_000),
        ];
        for (attempt, millis) in longest {
            for (random, part) in [(0.0, 0), (0.5, millis / 2), (1.0, millis)] {
                assert_eq!(
                    policy.decide(attempt, &transient(None), random),
                    RetryDecision::After(Duration::from_millis(part)),
                    "attempt {attempt}, {random}"
                );
            }
        }
    }

    #[test]
    fn every_give_up_has_its_reason() {
        let policy = RetryPolicy::default();
        let lasting = AttemptFailure {
            kind: AttemptFailureKind::Permanent,
            retry_after: Some(SECOND),
        };
        let rows = [
            (1, lasting, RetryDecision::GiveUp(GiveUpReason::Permanent)),
            (4, transient(None), RetryDecision::After(4 * SECOND)),
            (
                5,
                transient(None),
                RetryDecision::GiveUp(GiveUpReason::Exhausted),
            ),
            (
                u32::MAX,
                transient(None),
                RetryDecision::GiveUp(GiveUpReason::Exhausted),
            ),
            (
                1,
                transient(Some(7 * SECOND)),
                RetryDecision::After(Duration::from_millis(7_500)),
            ),
            (
                1,
                transient(Some(60 * SECOND)),
                RetryDecision::After(Duration::from_millis(60_500)),
            ),
            (
                1,
                transient(Some(61 * SECOND)),
                RetryDecision::GiveUp(GiveUpReason::RetryLater(61 * SECOND)),
            ),
            (
                5,
                transient(Some(Duration::MAX)),
                RetryDecision::GiveUp(GiveUpReason::RetryLater(Duration::MAX)),
            ),
        ];
        for (attempt, failed, expected) in rows {
            let decided = policy.decide(attempt, &failed, 1.0);
            assert_eq!(decided, expected, "{attempt}: {failed:?}");
        }
    }

    #[test]
    fn one_attempt_means_no_retry() {
        let policy = RetryPolicy {
            max_attempts: NonZeroU32::MIN,
            ..RetryPolicy::default()
        };
        let decided = policy.decide(1, &transient(None), 0.5);
        assert_eq!(decided, RetryDecision::GiveUp(GiveUpReason::Exhausted));
    }

    #[test]
    fn model_errors_are_converted() {
        let error = |kind| ModelError {
            kind,
            message: String::new(),
            retry_after: Some(SECOND),
            answer_began: false,
        };
        let limited = AttemptFailure::from(&error(ModelErrorKind::RateLimit));
        assert_eq!(limited, transient(Some(SECOND)));
        let refused = AttemptFailure::from(&error(ModelErrorKind::Auth));
        assert_eq!(refused.kind, AttemptFailureKind::Permanent);
    }

    proptest! {
        #[test]
        fn pauses_stay_within_their_bounds(
            attempts in 1_u32..20,
            attempt in 0_u32..40,
            (first, most) in (0_u64..5_000, 0_u64..100_000),
            asked in prop::option::of(0_u64..200_000),
            random in prop_oneof![0.0_f64..1.0, prop::num::f64::ANY],
        ) {
            let policy = RetryPolicy {
                max_attempts: NonZeroU32::new(attempts).unwrap(),
                initial_backoff: Duration::from_millis(first),
                max_backoff: Duration::from_millis(most),
                max_retry_after: 60 * SECOND,
            };
            let asked = asked.map(Duration::from_millis);
            match policy.decide(attempt, &transient(asked), random) {
                RetryDecision::After(pause) => {
                    let asked = asked.unwrap_or_default();
                    prop_assert!(pause >= asked && pause <= asked + policy.max_backoff);
                    prop_assert!(asked <= policy.max_retry_after && attempt < attempts);
                }
                RetryDecision::GiveUp(GiveUpReason::Exhausted) => prop_assert!(attempt >= attempts),
                RetryDecision::GiveUp(GiveUpReason::RetryLater(wait)) => {
                    prop_assert!(wait > policy.max_retry_after && Some(wait) == asked);
                }
                RetryDecision::GiveUp(GiveUpReason::Permanent) => prop_assert!(false, "it is transient"),
            }
        }
    }
}

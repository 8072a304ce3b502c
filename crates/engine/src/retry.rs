//! When a failed call is tried again, and when that is given up.
//!
//! Pure: whoever calls waits, takes the time and throws the dice. This is about one call that a
//! provider refused; how often a whole step of a plan may be tried is the profile's, see
//! [`recovery`](crate::recovery).

use std::num::NonZeroU32;
use std::time::Duration;

use crate::ports::models::ModelError;

/// How often and how patiently a call is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How many attempts are made in all, the first included.
    pub attempts: NonZeroU32,
    /// The longest pause after the first failure; it doubles with each further one.
    pub first: Duration,
    /// What doubling stops at.
    pub most: Duration,
    /// The longest wait a provider may ask for before the caller does something else meanwhile.
    pub patience: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: NonZeroU32::MIN.saturating_add(4),
            first: Duration::from_millis(500),
            most: Duration::from_secs(60),
            patience: Duration::from_secs(60),
        }
    }
}

/// What matters about a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed {
    pub nature: Nature,
    /// When the provider wants to be asked again.
    pub retry_after: Option<Duration>,
}

/// Whether the same call may succeed later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nature {
    Transient,
    Lasting,
}

/// Whether there is another attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// After this pause.
    After(Duration),
    GiveUp(GiveUp),
}

/// Why there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GiveUp {
    /// The same call would fail the same way.
    Lasting,
    /// All attempts were made.
    Exhausted,
    /// The provider asked for more time than one waits here: come back so much later.
    Later(Duration),
}

impl From<&ModelError> for Failed {
    fn from(error: &ModelError) -> Self {
        Self {
            nature: match error.kind.is_transient() {
                true => Nature::Transient,
                false => Nature::Lasting,
            },
            retry_after: error.retry_after,
        }
    }
}

impl RetryPolicy {
    /// What to do after failure number `attempt` (counted from 1), with `random` from [0, 1).
    ///
    /// The pause is a random part of a span that doubles with each failure ("full jitter"), so
    /// that those who failed together do not come back together. When the provider named a time,
    /// the pause comes on top of it: never earlier than asked, and still not all at once.
    pub fn decide(&self, attempt: u32, failed: &Failed, random: f64) -> Again {
        if failed.nature == Nature::Lasting {
            return Again::GiveUp(GiveUp::Lasting);
        }
        let asked = failed.retry_after.unwrap_or_default();
        if asked > self.patience {
            return Again::GiveUp(GiveUp::Later(asked));
        }
        if attempt >= self.attempts.get() {
            return Again::GiveUp(GiveUp::Exhausted);
        }
        let pause = self.span(attempt).mul_f64(part(random));
        Again::After(asked.saturating_add(pause))
    }

    /// The longest pause after failure number `attempt`.
    fn span(&self, attempt: u32) -> Duration {
        2_u32
            .checked_pow(attempt.saturating_sub(1))
            .map_or(Duration::MAX, |factor| self.first.saturating_mul(factor))
            .min(self.most)
    }
}

/// A number of the caller's as one that a span can be multiplied with.
fn part(random: f64) -> f64 {
    match random.is_finite() {
        true => random.clamp(0.0, 1.0),
        false => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ports::models::ModelErrorKind;

    const SECOND: Duration = Duration::from_secs(1);

    fn transient(retry_after: Option<Duration>) -> Failed {
        Failed {
            nature: Nature::Transient,
            retry_after,
        }
    }

    #[test]
    fn pauses_double_up_to_the_most() {
        let policy = RetryPolicy {
            attempts: NonZeroU32::new(100).unwrap(),
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
                    Again::After(Duration::from_millis(part)),
                    "attempt {attempt}, {random}"
                );
            }
        }
    }

    #[test]
    fn every_end_has_its_reason() {
        let policy = RetryPolicy::default();
        let lasting = Failed {
            nature: Nature::Lasting,
            retry_after: Some(SECOND),
        };
        let rows = [
            (1, lasting, Again::GiveUp(GiveUp::Lasting)),
            (4, transient(None), Again::After(4 * SECOND)),
            (5, transient(None), Again::GiveUp(GiveUp::Exhausted)),
            (u32::MAX, transient(None), Again::GiveUp(GiveUp::Exhausted)),
            (
                1,
                transient(Some(7 * SECOND)),
                Again::After(Duration::from_millis(7_500)),
            ),
            (
                1,
                transient(Some(60 * SECOND)),
                Again::After(Duration::from_millis(60_500)),
            ),
            (
                1,
                transient(Some(61 * SECOND)),
                Again::GiveUp(GiveUp::Later(61 * SECOND)),
            ),
            (
                5,
                transient(Some(Duration::MAX)),
                Again::GiveUp(GiveUp::Later(Duration::MAX)),
            ),
        ];
        for (attempt, failed, expected) in rows {
            let decided = policy.decide(attempt, &failed, 1.0);
            assert_eq!(decided, expected, "{attempt}: {failed:?}");
        }
    }

    #[test]
    fn one_attempt_means_no_other() {
        let policy = RetryPolicy {
            attempts: NonZeroU32::MIN,
            ..RetryPolicy::default()
        };
        let decided = policy.decide(1, &transient(None), 0.5);
        assert_eq!(decided, Again::GiveUp(GiveUp::Exhausted));
    }

    #[test]
    fn what_a_model_says_is_taken_over() {
        let error = |kind| ModelError {
            kind,
            message: String::new(),
            retry_after: Some(SECOND),
        };
        let limited = Failed::from(&error(ModelErrorKind::RateLimit));
        assert_eq!(limited, transient(Some(SECOND)));
        let refused = Failed::from(&error(ModelErrorKind::Auth));
        assert_eq!(refused.nature, Nature::Lasting);
    }

    proptest! {
        #[test]
        fn no_pause_is_shorter_than_asked_or_longer_than_allowed(
            attempts in 1_u32..20,
            attempt in 0_u32..40,
            (first, most) in (0_u64..5_000, 0_u64..100_000),
            asked in prop::option::of(0_u64..200_000),
            random in prop_oneof![0.0_f64..1.0, prop::num::f64::ANY],
        ) {
            let policy = RetryPolicy {
                attempts: NonZeroU32::new(attempts).unwrap(),
                first: Duration::from_millis(first),
                most: Duration::from_millis(most),
                patience: 60 * SECOND,
            };
            let asked = asked.map(Duration::from_millis);
            match policy.decide(attempt, &transient(asked), random) {
                Again::After(pause) => {
                    let asked = asked.unwrap_or_default();
                    prop_assert!(pause >= asked && pause <= asked + policy.most);
                    prop_assert!(asked <= policy.patience && attempt < attempts);
                }
                Again::GiveUp(GiveUp::Exhausted) => prop_assert!(attempt >= attempts),
                Again::GiveUp(GiveUp::Later(wait)) => {
                    prop_assert!(wait > policy.patience && Some(wait) == asked);
                }
                Again::GiveUp(GiveUp::Lasting) => prop_assert!(false, "it is transient"),
            }
        }
    }
}

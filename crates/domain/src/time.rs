//! Points in time as UTC microseconds. This crate reads no clock; time comes from the `Clock` port
//! or, for leases, from the database.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::schema::fixed_schema;

/// Microseconds since 1970 in UTC. Shown and serialised as RFC 3339 with six decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Timestamp(i64);

/// A text that is not an RFC 3339 time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a time: write it as 2026-01-31T12:00:00Z")]
pub struct TimestampError(String);

impl Timestamp {
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// The time `span` later; saturates at the maximum.
    pub fn after(self, span: Duration) -> Self {
        let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(micros))
    }

    /// The time `span` earlier; saturates at the minimum.
    pub fn before(self, span: Duration) -> Self {
        let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(micros))
    }

    /// The time since `earlier`; zero if `earlier` is in the future.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(time) => write!(f, "{time:.6}"),
            Err(_) => write!(f, "{}µs", self.0),
        }
    }
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, TimestampError> {
        text.parse::<jiff::Timestamp>()
            .map(|time| Self(time.as_microsecond()))
            .map_err(|_| TimestampError(text.to_owned()))
    }
}

fixed_schema! {
    Timestamp: {
        "description": "A point in time in UTC, to the microsecond.",
        "type": "string",
        "format": "date-time"
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_reads_back_to_the_microsecond() {
        let time = Timestamp::from_micros(1_700_000_000_123_456);
        assert_eq!(time.to_string(), "2023-11-14T22:13:20.123456Z");
        assert_eq!(time.to_string().parse(), Ok(time));
    }

    #[test]
    fn arithmetic_never_wraps() {
        let end = Timestamp::from_micros(i64::MAX);
        assert_eq!(end.after(Duration::MAX), end);
        assert_eq!(Timestamp::default().since(end), Duration::ZERO);
    }
}

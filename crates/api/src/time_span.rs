//! Spans of time as users write them.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const UNITS: [(char, u64); 4] = [('d', 24 * 60 * 60), ('h', 60 * 60), ('m', 60), ('s', 1)];

/// A span of time in whole seconds, written as `30s`, `5m`, `12h` or `7d`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeSpan(pub Duration);

/// A text that is not a span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeSpanError;

impl fmt::Display for TimeSpanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write a number and s, m, h or d, such as 7d")
    }
}

impl std::error::Error for TimeSpanError {}

impl FromStr for TimeSpan {
    type Err = TimeSpanError;

    fn from_str(text: &str) -> Result<Self, TimeSpanError> {
        let parse = || {
            let unit = text.chars().last()?;
            let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
            let (_, seconds) = UNITS.into_iter().find(|(letter, _)| *letter == unit)?;
            number.checked_mul(seconds).map(Duration::from_secs)
        };
        parse().map(Self).ok_or(TimeSpanError)
    }
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let is_whole = |unit: &(char, u64)| seconds > 0 && seconds.is_multiple_of(unit.1);
        let (letter, unit) = UNITS.into_iter().find(is_whole).unwrap_or(('s', 1));
        write!(f, "{}{letter}", seconds / unit)
    }
}

impl Serialize for TimeSpan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TimeSpan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for TimeSpan {
    fn schema_name() -> Cow<'static, str> {
        "TimeSpan".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A number of seconds, minutes, hours or days, such as `7d`.",
            "pattern": "^[0-9]+[smhd]$"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_written_in_its_largest_whole_unit() {
        for (text, seconds, written) in [
            ("0s", 0, "0s"),
            ("90s", 90, "90s"),
            ("60m", 3600, "1h"),
            ("7d", 604_800, "7d"),
        ] {
            let span: TimeSpan = text.parse().unwrap();
            assert_eq!(span.0.as_secs(), seconds);
            assert_eq!(span.to_string(), written);
            let json = serde_json::to_string(&span).unwrap();
            assert_eq!(serde_json::from_str::<TimeSpan>(&json).unwrap(), span);
        }
        for wrong in ["", "7", "d", "7w", "-1s", "1.5h", "99999999999999999999s"] {
            assert!(wrong.parse::<TimeSpan>().is_err(), "{wrong}");
        }
    }
}

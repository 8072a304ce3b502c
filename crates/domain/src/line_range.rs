//! A part of a file, in lines.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::schema::fixed_schema;

/// Lines of a file, counted from 1, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineRange {
    pub first: u32,
    pub last: u32,
}

/// Error of a text that is no range of lines.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no range of lines: write FIRST,LAST, such as 10,20, or one number")]
pub struct LineRangeError {
    pub text: String,
}

fixed_schema! {
    LineRange: {
        "description": "A range of lines: the first and the last, counted from 1.",
        "type": "string",
        "pattern": "^[0-9]+(,[0-9]+)?$"
    }
}

impl FromStr for LineRange {
    type Err = LineRangeError;

    fn from_str(text: &str) -> Result<Self, LineRangeError> {
        let (first, last) = text.split_once(',').unwrap_or((text, text));
        match (first.trim().parse(), last.trim().parse()) {
            (Ok(first), Ok(last)) if 1 <= first && first <= last => Ok(Self { first, last }),
            _ => Err(LineRangeError {
                text: text.chars().take(40).collect(),
            }),
        }
    }
}

impl fmt::Display for LineRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.first, self.last)
    }
}

impl Serialize for LineRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LineRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_begins_at_a_line_and_does_not_end_before_it() {
        let range = LineRange { first: 3, last: 9 };
        assert_eq!("3,9".parse(), Ok(range));
        assert_eq!(range.to_string(), "3,9");
        assert_eq!("4".parse(), Ok(LineRange { first: 4, last: 4 }));
        for text in ["", "0", "0,1", "9,3", "a,b", "1,2,3", "-1,2"] {
            assert!(text.parse::<LineRange>().is_err(), "{text}");
        }
    }
}

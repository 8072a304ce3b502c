//! The streams of the journal.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::{IdError, PlanId};
use crate::schema::fixed_schema;

/// The stream an event belongs to: one plan's, or the installation's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StreamId {
    System,
    Plan(PlanId),
}

const SYSTEM: &str = "system";

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str(SYSTEM),
            Self::Plan(plan) => plan.fmt(f),
        }
    }
}

impl FromStr for StreamId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        if text == SYSTEM {
            Ok(Self::System)
        } else {
            text.parse().map(Self::Plan)
        }
    }
}

fixed_schema! {
    StreamId: { "type": "string", "description": "`system`, or the id of a plan." }
}

impl Serialize for StreamId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for StreamId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_a_plan_or_the_system() {
        let plan = "01JZZZZZZZ0000000000ABCDEF";
        assert_eq!("system".parse(), Ok(StreamId::System));
        assert_eq!(plan.parse::<StreamId>().unwrap().to_string(), plan);
        assert!("nonsense".parse::<StreamId>().is_err());
    }
}

//! Numbers from 0 to 1: the confidence of an actor, and the confidence required of it.
//!
//! Two types, so that a confidence cannot be passed where a threshold is expected.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A number that is not from 0 to 1.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("a {what} is a number from 0.0 to 1.0, not {value}")]
pub struct FractionError {
    what: &'static str,
    value: f64,
}

macro_rules! fractions {
    ($($(#[$doc:meta])* $name:ident: $what:literal),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
        #[serde(try_from = "f64", into = "f64")]
        pub struct $name(f64);

        impl $name {
            pub const ZERO: Self = Self(0.0);
            pub const ONE: Self = Self(1.0);

            pub fn new(value: f64) -> Result<Self, FractionError> {
                if (0.0..=1.0).contains(&value) {
                    Ok(Self(value))
                } else {
                    Err(FractionError { what: $what, value })
                }
            }

            pub const fn value(self) -> f64 {
                self.0
            }
        }

        $crate::schema::fixed_schema! { $name: { "type": "number", "minimum": 0, "maximum": 1 } }

        impl TryFrom<f64> for $name {
            type Error = FractionError;

            fn try_from(value: f64) -> Result<Self, FractionError> {
                Self::new(value)
            }
        }

        impl From<$name> for f64 {
            fn from(fraction: $name) -> f64 {
                fraction.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )+};
}

fractions! {
    /// An actor's confidence in its choice.
    Confidence: "confidence",
    /// The confidence an actor needs to continue without the user's approval.
    Threshold: "threshold",
}

impl Threshold {
    /// For profiles that gate by confidence.
    pub(crate) const SEVEN_TENTHS: Self = Self(0.7);
    /// For actions that are hard to undo.
    pub(crate) const NINE_TENTHS: Self = Self(0.9);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_from_zero_to_one_are_accepted() {
        for value in [0.0, 0.5, 1.0] {
            assert_eq!(Confidence::new(value).unwrap().value(), value);
        }
        for value in [-0.1, 1.000_001, f64::NAN, f64::INFINITY] {
            assert!(Threshold::new(value).is_err(), "{value}");
        }
        assert_eq!(
            Threshold::new(2.0).unwrap_err().to_string(),
            "a threshold is a number from 0.0 to 1.0, not 2"
        );
    }

    #[test]
    fn json_is_the_plain_number_and_is_checked() {
        let half = Confidence::new(0.5).unwrap();
        assert_eq!(serde_json::to_string(&half).unwrap(), "0.5");
        assert_eq!(serde_json::from_str::<Confidence>("0.5").unwrap(), half);
        assert!(serde_json::from_str::<Confidence>("1.5").is_err());
    }
}

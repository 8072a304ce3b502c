//! Types of arguments that several commands share: plan names, enum values, amounts of money.

use std::fmt::Display;
use std::str::FromStr;

use cleveragents_domain::NamespacedName;
use cleveragents_domain::id::{IdError, IdFragment};

/// Default limit for the number of rows in a list.
pub const DEFAULT_ROWS: u32 = 100;

/// Parses a value of a domain enum; used as a clap value parser.
pub fn parse_value<T>(text: &str) -> Result<T, String>
where
    T: FromStr,
    T::Err: Display,
{
    text.parse().map_err(|error: T::Err| error.to_string())
}

/// A plan as the user names it: its id, at least four characters from either end of the id, or its
/// full name, which ends in the last eight characters of the id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanArgument(pub IdFragment);

impl FromStr for PlanArgument {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let named = text.contains('/') && text.parse::<NamespacedName>().is_ok();
        let fragment = match text.rsplit_once('-') {
            Some((_, tail)) if named => tail,
            _ => text,
        };
        fragment.parse().map(Self)
    }
}

/// Parses a positive amount in US dollars.
pub fn parse_dollars(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(usd) if usd.is_finite() && usd > 0.0 => Ok(usd),
        _ => Err("an amount of US dollars above 0, such as 0.50".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fragment(text: &str) -> String {
        text.parse::<PlanArgument>().unwrap().0.as_str().to_owned()
    }

    #[test]
    fn a_plan_is_named_by_its_id_a_part_of_it_or_its_name() {
        assert_eq!(fragment("00abcdef"), "00ABCDEF");
        assert_eq!(fragment("01JZZZZZZZ0000000000ABCDEF").len(), 26);
        assert_eq!(fragment("local/fix-all-00abcdef"), "00ABCDEF");
        assert!("fix-00abcdef".parse::<PlanArgument>().is_err());
        assert!("abc".parse::<PlanArgument>().is_err());
    }
}

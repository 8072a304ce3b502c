//! Types of arguments that several commands share: plan names, enum values, amounts of money.

use std::fmt::Display;
use std::num::NonZeroU32;
use std::str::FromStr;

use cleveragents_api::plan::PlanReference;
use cleveragents_domain::id::IdError;

/// Help of an argument that names a plan.
pub const PLAN_HELP: &str = "The plan: its name, at least four characters of its id, or @last";

/// A plan as the user types it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanArgument {
    Reference(PlanReference),
    /// `@last` or `@N`: one of the newest plans of this repository, the newest being 1.
    Recent(NonZeroU32),
}

impl FromStr for PlanArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix('@') {
            Some("last") => Ok(Self::Recent(NonZeroU32::MIN)),
            Some(number) => {
                let number = number.parse().map(Self::Recent);
                number.map_err(|_| "give @last, or @1, @2 … for the newest plans".to_owned())
            }
            None => {
                let reference = text.parse().map(Self::Reference);
                reference.map_err(|error: IdError| error.to_string())
            }
        }
    }
}

/// Default limit for the number of rows in a list.
pub const DEFAULT_ROWS: u32 = 100;

/// Parses the limit of a list.
pub fn parse_limit(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(limit) if limit >= 1 => Ok(limit),
        _ => Err("a whole number from 1 on".to_owned()),
    }
}

/// Parses a value of a domain enum; used as a clap value parser.
pub fn parse_value<T>(text: &str) -> Result<T, String>
where
    T: FromStr,
    T::Err: Display,
{
    text.parse().map_err(|error: T::Err| error.to_string())
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

    #[test]
    fn a_plan_is_named_by_its_id_its_name_or_its_age() {
        let recent = |number| Ok(PlanArgument::Recent(NonZeroU32::new(number).unwrap()));
        assert_eq!("@last".parse(), recent(1));
        assert_eq!("@12".parse(), recent(12));
        for wrong in ["@0", "@", "@first", "@-1", "abc"] {
            assert!(wrong.parse::<PlanArgument>().is_err(), "{wrong}");
        }
        let name = "local/fix-00abcdef".parse::<PlanArgument>();
        let reference = "00abcdef".parse().unwrap();
        assert_eq!(name, Ok(PlanArgument::Reference(reference)));
    }
}

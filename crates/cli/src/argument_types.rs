//! Types of arguments that several commands share: plan names, enum values, amounts of money.

use std::fmt::Display;
use std::str::FromStr;

pub use cleveragents_api::plan::PlanReference as PlanArgument;

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

/// Parses a positive amount in US dollars.
pub fn parse_dollars(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(usd) if usd.is_finite() && usd > 0.0 => Ok(usd),
        _ => Err("an amount of US dollars above 0, such as 0.50".to_owned()),
    }
}

//! Reads prices.

use cleveragents_domain::model::Price;

use super::conversion::DefinitionConversion;
use super::record::record;

pub(super) const FREE: Price = Price {
    input: 0.0,
    output: 0.0,
    cached_input: None,
    cache_write: None,
};

record! {
    /// Dollars for a million tokens.
    #[schemars(title = "Price")]
    PriceEntry refusing [] {
        /// For what is read.
        #[schemars(range(min = 0))]
        input: f64 = "input",
        /// For what is written.
        #[schemars(range(min = 0))]
        output: f64 = "output",
        /// Tokens read from the provider's cache; as `input` if left out.
        #[schemars(range(min = 0))]
        cached_input: Option<f64> = "cached_input",
        /// Tokens written to the provider's cache; as `input` if left out.
        #[schemars(range(min = 0))]
        cache_write: Option<f64> = "cache_write",
    }
}

/// Reads a price per million tokens.
pub(super) fn convert_price(
    conversion: &mut DefinitionConversion<'_>,
    path: &str,
    entry: &PriceEntry,
) -> Option<Price> {
    let parts = [
        ("input", Some(entry.input)),
        ("output", Some(entry.output)),
        ("cached_input", entry.cached_input),
        ("cache_write", entry.cache_write),
    ];
    let mut fits = true;
    for (key, dollars) in parts {
        if dollars.is_some_and(|dollars| dollars < 0.0) {
            let key = format!("{path}.{key}");
            conversion.problem(&key, format!("`{key}` must not be negative"));
            fits = false;
        }
    }
    fits.then_some(Price {
        input: entry.input,
        output: entry.output,
        cached_input: entry.cached_input,
        cache_write: entry.cache_write,
    })
}

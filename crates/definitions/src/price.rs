//! Reads prices.

use cleveragents_domain::model::Price;

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

impl PriceEntry {
    pub(super) fn price(&self) -> Price {
        Price {
            input: self.input,
            output: self.output,
            cached_input: self.cached_input,
            cache_write: self.cache_write,
        }
    }
}

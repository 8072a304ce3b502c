//! What the models of a plan cost.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The plan's spending on models.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanCost {
    /// The cost of `tokens` in US dollars; `null` if the price of a model is unknown.
    pub usd: Option<f64>,
    /// The usage that providers reported.
    pub tokens: TokenCounts,
    /// The tokens of calls whose usage no provider reported, because they are not finished, were
    /// interrupted or broke off.
    pub estimated_tokens: u64,
    /// What `estimated_tokens` may have cost in US dollars, beside `usd`; `null` if the price of a
    /// model is unknown.
    pub estimated_usd: Option<f64>,
    /// All tokens that count against a budget: reported and estimated.
    pub tokens_used: u64,
    /// The US dollars that count against a budget: reported and estimated, where a price is known.
    pub cost_so_far: f64,
    /// Always `null`: nothing estimates the cost of a whole plan yet.
    pub estimated: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenCounts {
    /// All input tokens, cached or not.
    pub input: u64,
    pub output: u64,
    /// Input tokens read from the provider's cache.
    pub cached: u64,
}

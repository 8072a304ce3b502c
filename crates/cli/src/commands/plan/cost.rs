//! The cost of models as text.

use cleveragents_api::plan::PlanCost;

use crate::output::ViewCell;

/// Returns the cost as table rows; none if no model was used.
pub(super) fn cost_rows(cost: &PlanCost) -> Vec<(&'static str, ViewCell)> {
    let mut rows = Vec::new();
    if reported_tokens(cost) > 0 {
        rows.push(("tokens", describe_tokens(cost).into()));
        rows.push(("cost", describe_price(cost).into()));
    }
    rows.extend(describe_estimate(cost).map(|text| ("estimate", text.into())));
    rows
}

/// Returns the cost as a sentence; `None` if no model was used.
pub(crate) fn describe_cost(cost: &PlanCost) -> Option<String> {
    let estimate = describe_estimate(cost);
    let tokens = reported_tokens(cost);
    if tokens == 0 {
        return estimate;
    }
    let reported = format!("models used {tokens} tokens, {}", describe_price(cost));
    Some(match estimate {
        Some(estimate) => format!("{reported}; {estimate}"),
        None => reported,
    })
}

const fn reported_tokens(cost: &PlanCost) -> u64 {
    cost.tokens.input + cost.tokens.output
}

fn describe_tokens(cost: &PlanCost) -> String {
    let tokens = cost.tokens;
    match tokens.cached {
        0 => format!("{} in, {} out", tokens.input, tokens.output),
        cached => format!(
            "{} in ({cached} cached), {} out",
            tokens.input, tokens.output
        ),
    }
}

fn describe_price(cost: &PlanCost) -> String {
    match cost.usd {
        Some(usd) => format_dollars(usd),
        None => "price unknown".to_owned(),
    }
}

/// Rounds up what would look like nothing.
fn format_dollars(usd: f64) -> String {
    if usd > 0.0 && usd < 0.0001 {
        "less than 0.0001 USD".to_owned()
    } else {
        format!("{usd:.4} USD")
    }
}

/// Describes the calls whose usage was not reported.
fn describe_estimate(cost: &PlanCost) -> Option<String> {
    let tokens = cost.estimated_tokens;
    if tokens == 0 {
        return None;
    }
    let price = match cost.estimated_usd {
        Some(usd) => format_dollars(usd),
        None => "an unknown price".to_owned(),
    };
    Some(format!(
        "calls without reported usage may have cost {price} (about {tokens} tokens)"
    ))
}

#[cfg(test)]
mod tests {
    use cleveragents_api::plan::cost::TokenCounts;

    use super::*;

    fn cost(usd: Option<f64>, estimated_tokens: u64, estimated_usd: Option<f64>) -> PlanCost {
        PlanCost {
            usd,
            tokens: TokenCounts {
                input: 2000,
                output: 133,
                cached: 500,
            },
            estimated_tokens,
            estimated_usd,
            tokens_used: 2133 + estimated_tokens,
            cost_so_far: usd.unwrap_or(0.0) + estimated_usd.unwrap_or(0.0),
            estimated: None,
        }
    }

    #[test]
    fn a_cost_is_described_without_false_zeros() {
        let text = |cost| describe_cost(&cost).unwrap();
        assert_eq!(
            text(cost(Some(0.5), 0, Some(0.0))),
            "models used 2133 tokens, 0.5000 USD"
        );
        assert_eq!(
            text(cost(None, 0, Some(0.0))),
            "models used 2133 tokens, price unknown"
        );
        assert_eq!(
            text(cost(Some(1e-9), 0, Some(0.0))),
            "models used 2133 tokens, less than 0.0001 USD"
        );
        assert_eq!(
            text(cost(Some(0.5), 8300, Some(0.25))),
            "models used 2133 tokens, 0.5000 USD; \
             calls without reported usage may have cost 0.2500 USD (about 8300 tokens)"
        );
        assert_eq!(
            text(cost(None, 8300, None)),
            "models used 2133 tokens, price unknown; \
             calls without reported usage may have cost an unknown price (about 8300 tokens)"
        );
        let nothing_reported = |estimated_tokens| PlanCost {
            tokens: TokenCounts {
                input: 0,
                output: 0,
                cached: 0,
            },
            ..cost(Some(0.0), estimated_tokens, Some(0.25))
        };
        assert_eq!(
            text(nothing_reported(8300)),
            "calls without reported usage may have cost 0.2500 USD (about 8300 tokens)"
        );
        assert_eq!(describe_cost(&nothing_reported(0)), None);
        assert!(cost_rows(&nothing_reported(0)).is_empty());
        assert_eq!(
            describe_tokens(&cost(None, 0, None)),
            "2000 in (500 cached), 133 out"
        );
    }
}

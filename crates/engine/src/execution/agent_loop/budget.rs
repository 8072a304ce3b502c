//! The budget of a plan, and warnings when it is nearly used up.

use cleveragents_domain::event::payloads::BudgetWarning;
use cleveragents_domain::model_call::ModelSpend;
use cleveragents_domain::{Budget, Plan};

/// Share of a budget at which a warning is recorded.
const WARNING_SHARE: f64 = 0.9;

/// Returns the plan's budget: its own, limited by its profile.
pub(in crate::execution) fn budget(plan: &Plan) -> Budget {
    let own = plan.brief.budget;
    let allowed = plan.brief.automation_profile.guards.max_total_cost;
    let usd = match (own.usd, allowed) {
        (Some(own), Some(allowed)) => Some(own.min(allowed)),
        (own, allowed) => own.or(allowed),
    };
    Budget { usd, ..own }
}

/// Returns the limit of the budget that would be exceeded.
pub(super) fn exceeded(
    budget: &Budget,
    spent: ModelSpend,
    requested: ModelSpend,
) -> Option<String> {
    if let Some(limit) = budget.usd
        && spent.usd + requested.usd > limit
    {
        return Some(format!(
            "the budget of {limit} USD does not allow another {:.4}: {:.4} are used up or reserved",
            requested.usd, spent.usd
        ));
    }
    let limit = budget.tokens?;
    let tokens = spent.tokens.saturating_add(requested.tokens);
    (tokens > limit).then(|| {
        format!(
            "the budget of {limit} tokens does not allow another {}: {} are used up or reserved",
            requested.tokens, spent.tokens
        )
    })
}

/// Returns a warning when this attempt comes near a limit for the first time.
pub(super) fn warning(
    budget: &Budget,
    spent: ModelSpend,
    requested: ModelSpend,
) -> Option<BudgetWarning> {
    #[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
    let tokens = budget.tokens.map(|limit| {
        let share = |used: u64| used as f64 / limit.max(1) as f64;
        (share(spent.tokens), share(spent.tokens + requested.tokens))
    });
    let usd = budget.usd.map(|limit| {
        let share = |used: f64| used / limit.max(f64::MIN_POSITIVE);
        (share(spent.usd), share(spent.usd + requested.usd))
    });
    let crosses = |(before, after): (f64, f64)| before < WARNING_SHARE && after >= WARNING_SHARE;
    let near = [usd, tokens].into_iter().flatten().any(crosses);
    near.then_some(BudgetWarning {
        limit: *budget,
        used: spent,
        reserved: requested,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn spent(tokens: u64, usd: f64) -> ModelSpend {
        ModelSpend { tokens, usd }
    }

    #[test]
    fn reservations_stay_within_the_budget() {
        let none = Budget::default();
        assert_eq!(exceeded(&none, spent(1 << 60, 1e9), spent(1, 1.0)), None);
        let budget = Budget {
            usd: Some(1.0),
            tokens: Some(1000),
            wall: None,
        };
        assert_eq!(exceeded(&budget, spent(900, 0.5), spent(100, 0.5)), None);
        let dollars = exceeded(&budget, spent(0, 0.75), spent(0, 0.5)).unwrap();
        assert!(dollars.contains("budget of 1 USD does not allow another 0.5000"));
        let tokens = exceeded(&budget, spent(901, 0.0), spent(100, 0.0)).unwrap();
        assert!(tokens.contains("budget of 1000 tokens does not allow another 100: 901 are"));
    }

    #[test]
    fn a_warning_is_given_once_near_a_limit() {
        let budget = Budget {
            usd: Some(1.0),
            ..Budget::default()
        };
        assert!(warning(&budget, spent(0, 0.0), spent(0, 0.5)).is_none());
        assert!(warning(&budget, spent(0, 0.5), spent(0, 0.45)).is_some());
        assert!(warning(&budget, spent(0, 0.95), spent(0, 0.01)).is_none());
    }
}

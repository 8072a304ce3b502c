//! The budget of a plan: what a request reserves, how long its answer may be, and warnings when the
//! budget is nearly used up.

use cleveragents_domain::event::payloads::BudgetWarning;
use cleveragents_domain::model::Usage;
use cleveragents_domain::model_call::{ModelCallRecord, ModelSpend, ModelTotals, NewModelCall};
use cleveragents_domain::{Budget, Plan};
use cleveragents_ports::models::Model;

use super::charge::cost;

/// Share of a budget at which a warning is recorded.
const WARNING_SHARE: f64 = 0.9;

/// What a request may use up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reservation {
    /// The input, at the highest price that it may have.
    input: ModelSpend,
    /// The tokens of an answer of usual length.
    answer_tokens: u64,
    /// The tokens of the longest answer that the model gives.
    longest_answer: u64,
    /// US dollars per token of the answer; `None` if unknown.
    answer_price: Option<f64>,
}

impl Reservation {
    pub(super) fn new(
        model: &dyn Model,
        input_tokens: u64,
        longest_answer: u64,
        usual_answer: u64,
    ) -> Self {
        let plain = Usage {
            input_tokens,
            ..Usage::default()
        };
        // Writing to a provider's cache may cost more than plain input, so reserve the higher
        // price.
        let cached = Usage {
            cache_written_tokens: input_tokens,
            ..plain
        };
        let (plain, cached) = (cost(model, &plain), cost(model, &cached));
        let usd = plain.usd.zip(cached.usd).map(|(one, other)| one.max(other));
        Self {
            input: ModelSpend { usd, ..plain },
            answer_tokens: longest_answer.min(usual_answer),
            longest_answer,
            answer_price: model.facts().price.map(|price| price.output / 1e6),
        }
    }

    /// Returns what is reserved: the input and an answer of usual length.
    pub(super) fn spend(&self) -> ModelSpend {
        self.with_answer(self.answer_tokens)
    }

    /// Returns what the request may spend if its answer has at most `answer_limit` tokens.
    pub(super) fn maximum(&self, answer_limit: Option<u64>) -> ModelSpend {
        self.with_answer(answer_limit.unwrap_or(self.longest_answer))
    }

    fn with_answer(&self, tokens: u64) -> ModelSpend {
        let answer = self.answer_price.map(|price| price * as_f64(tokens));
        ModelSpend {
            tokens: self.input.tokens.saturating_add(tokens),
            usd: self
                .input
                .usd
                .zip(answer)
                .map(|(input, answer)| input + answer),
        }
    }

    /// Returns the longest answer that the budget still pays for; `None` if it pays for the longest
    /// that the model gives.
    pub(super) fn answer_limit(&self, budget: &Budget, spent: ModelSpend) -> Option<u64> {
        let by_tokens = budget.tokens.map(|limit| {
            let used = spent.tokens.saturating_add(self.input.tokens);
            limit.saturating_sub(used)
        });
        let by_usd = budget
            .usd
            .zip(self.answer_price)
            .and_then(|(limit, price)| {
                let used = spent.usd.unwrap_or(0.0) + self.input.usd.unwrap_or(0.0);
                (price > 0.0).then(|| whole_tokens((limit - used) / price))
            });
        let limit = by_tokens.into_iter().chain(by_usd).min()?;
        (limit < self.longest_answer).then_some(limit)
    }
}

/// Returns what the plan's calls have spent and what those that have not ended may still spend.
pub(super) fn committed(totals: &ModelTotals, unfinished: &[ModelCallRecord]) -> ModelSpend {
    let mut sum = totals.counted();
    for NewModelCall {
        maximum, reserved, ..
    } in unfinished.iter().map(|it| &it.call)
    {
        // The totals contain the reservation, but the answer may be longer.
        let tokens = maximum.tokens.saturating_sub(reserved.tokens);
        let usd = maximum.usd.unwrap_or(0.0) - reserved.usd.unwrap_or(0.0);
        sum.tokens = sum.tokens.saturating_add(tokens);
        sum.usd = sum.usd.map(|sum| sum + usd.max(0.0));
    }
    sum
}

#[expect(clippy::cast_precision_loss, reason = "no answer has 2^52 tokens")]
const fn as_f64(tokens: u64) -> f64 {
    tokens as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the conversion saturates, which is right for both ends"
)]
const fn whole_tokens(tokens: f64) -> u64 {
    tokens as u64
}

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
    let (used, more) = (spent.usd.unwrap_or(0.0), requested.usd.unwrap_or(0.0));
    if let Some(limit) = budget.usd
        && used + more > limit
    {
        return Some(format!(
            "the budget of {limit} USD does not allow another {more:.4}: {used:.4} are used up or \
             reserved"
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
        let (used, more) = (spent.usd.unwrap_or(0.0), requested.usd.unwrap_or(0.0));
        (share(used), share(used + more))
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
    use cleveragents_domain::model_call::{ConversationKey, ModelCallState};
    use cleveragents_domain::{Phase, Timestamp};

    use super::*;

    const fn spent(tokens: u64, usd: f64) -> ModelSpend {
        ModelSpend {
            tokens,
            usd: Some(usd),
        }
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

    fn reservation() -> Reservation {
        Reservation {
            input: spent(1000, 0.01),
            answer_tokens: 8000,
            longest_answer: 64_000,
            answer_price: Some(25e-6),
        }
    }

    #[test]
    fn an_answer_is_limited_to_what_the_budget_pays() {
        let limit = |usd, tokens, used| {
            let budget = Budget {
                usd,
                tokens,
                wall: None,
            };
            reservation().answer_limit(&budget, used)
        };
        assert_eq!(limit(None, None, spent(1 << 60, 1e9)), None);
        assert_eq!(limit(Some(100.0), Some(1 << 40), spent(0, 0.0)), None);
        assert_eq!(limit(Some(0.51), None, spent(0, 0.0)), Some(20_000));
        assert_eq!(limit(Some(0.51), None, spent(0, 0.25)), Some(10_000));
        assert_eq!(limit(Some(0.51), Some(4000), spent(0, 0.0)), Some(3000));
        assert_eq!(limit(Some(0.51), None, spent(0, 2.0)), Some(0));
        assert_eq!(limit(None, Some(4000), spent(9000, 0.0)), Some(0));
    }

    #[test]
    fn calls_at_the_same_time_stay_within_the_budget_together() {
        let budget = Budget {
            usd: Some(0.51),
            ..Budget::default()
        };
        let first_limit = reservation().answer_limit(&budget, spent(0, 0.0));
        let first = NewModelCall {
            reserved: reservation().spend(),
            maximum: reservation().maximum(first_limit),
            answer_limit: first_limit,
            ..call()
        };
        let totals = ModelTotals {
            estimated_tokens: first.reserved.tokens,
            estimated_usd: first.reserved.usd.unwrap(),
            ..ModelTotals::default()
        };
        let used = committed(&totals, &[record(first)]);
        let next = reservation();
        // The second answer is paid for by what the first one cannot use.
        assert!(exceeded(&budget, used, next.spend()).is_some(), "{used:?}");
        assert_eq!(next.answer_limit(&budget, used), Some(0));
        let larger = Budget {
            usd: Some(1.0),
            ..budget
        };
        assert_eq!(exceeded(&larger, used, next.spend()), None);
        let both = used.usd.unwrap() + next.maximum(next.answer_limit(&larger, used)).usd.unwrap();
        assert!(both <= 1.0, "{both}");
    }

    fn call() -> NewModelCall {
        let id = "01M7PRKDAV1J639KK8D2AWKNBC";
        NewModelCall {
            id: id.parse().unwrap(),
            plan_id: id.parse().unwrap(),
            conversation: ConversationKey {
                phase: Phase::Execute,
                strategy: 1,
                step: 1,
                round: 0,
            },
            turn: 1,
            actor: "local/coder".parse().unwrap(),
            model: "here/small".parse().unwrap(),
            request: String::new(),
            reserved: ModelSpend::default(),
            maximum: ModelSpend::default(),
            answer_limit: None,
            after_call: 0,
        }
    }

    fn record(call: NewModelCall) -> ModelCallRecord {
        ModelCallRecord {
            number: 1,
            ordinal: 0,
            state: ModelCallState::Asked,
            answer: None,
            usage: Usage::default(),
            spent: call.reserved,
            is_estimate: true,
            error: None,
            started_at: Timestamp::from_micros(0),
            finished_at: None,
            undone_by: None,
            call,
        }
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

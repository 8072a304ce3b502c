//! What an attempt costs: what the provider reported, else an estimate of what it may charge.

use cleveragents_domain::model::{ModelAnswer, ModelMessage, Usage};
use cleveragents_domain::model_call::ModelSpend;
use cleveragents_ports::models::{Model, ModelError};

use super::AgentTurn;
use super::answer_builder::ModelAnswerBuilder;
use super::conversation::{Conversation, count_tokens, requested_calls};

/// The cost of one attempt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Charge {
    pub(super) usage: Usage,
    pub(super) spent: ModelSpend,
    /// Whether the provider did not report this usage.
    pub(super) is_estimate: bool,
}

/// What the next answer of a conversation costs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pricing<'a> {
    model: &'a dyn Model,
    conversation: &'a Conversation,
}

impl<'a> Pricing<'a> {
    pub(super) fn new(agent_turn: &'a AgentTurn<'_>) -> Self {
        Self {
            model: &*agent_turn.model,
            conversation: &agent_turn.conversation,
        }
    }

    pub(super) fn answer_charge(&self, answer: &ModelAnswer) -> Charge {
        if answer.usage == Usage::default() {
            self.estimate_charge(answer)
        } else {
            self.charge(answer.usage, false)
        }
    }

    /// Returns the cost of a failed attempt: nothing if the provider did not begin to answer.
    pub(super) fn failure_charge(&self, error: &ModelError, parts: &ModelAnswerBuilder) -> Charge {
        if !error.answer_began {
            self.charge(Usage::default(), false)
        } else if parts.is_finished() {
            self.answer_charge(parts.partial())
        } else {
            self.estimate_charge(parts.partial())
        }
    }

    /// Estimates the cost of an answer of which these parts were received.
    pub(super) fn estimate_charge(&self, parts: &ModelAnswer) -> Charge {
        let reported = parts.usage;
        let input_tokens = match reported.input_tokens {
            0 => self.conversation.tokens(),
            reported => reported,
        };
        let usage = Usage {
            input_tokens,
            output_tokens: reported.output_tokens.max(self.count_answer(parts)),
            ..reported
        };
        self.charge(usage, true)
    }

    fn charge(&self, usage: Usage, is_estimate: bool) -> Charge {
        Charge {
            usage,
            spent: cost(self.model, &usage),
            is_estimate,
        }
    }

    fn count_answer(&self, parts: &ModelAnswer) -> u64 {
        if parts.text.is_empty() && parts.tool_calls.is_empty() {
            return 0;
        }
        let message = ModelMessage::Assistant {
            text: parts.text.clone(),
            tool_calls: requested_calls(parts, self.conversation.turn + 1),
        };
        count_tokens(&message, self.model)
    }
}

pub(super) fn cost(model: &dyn Model, usage: &Usage) -> ModelSpend {
    let price = model.facts().price;
    ModelSpend {
        tokens: usage.input_tokens + usage.output_tokens,
        usd: price.map(|price| price.cost(usage)),
    }
}

//! Records of requests to models.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{CheckpointId, ModelCallId, PlanId};
use crate::lifecycle::Phase;
use crate::model::{ModelChoice, Usage};
use crate::name::NamespacedName;
use crate::text_enum::text_enum;
use crate::time::Timestamp;

/// Identifies one conversation of a plan with a model. Calls with the same key continue the same
/// conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ConversationKey {
    pub phase: Phase,
    /// The number of the strategy being executed; while strategizing, the number of existing
    /// strategies.
    pub strategy: i64,
    /// The strategy step, counted from 1; 0 before there is a strategy.
    pub step: u32,
    /// The repair round after failed validations; 0 is the original work.
    pub round: u32,
}

impl std::fmt::Display for ConversationKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            phase,
            strategy,
            step,
            round,
        } = self;
        write!(f, "{phase}/{strategy}/{step}/{round}")
    }
}

/// A model request that is about to be sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewModelCall {
    pub id: ModelCallId,
    pub plan_id: PlanId,
    pub conversation: ConversationKey,
    /// The turn of the conversation, counted from 1.
    pub turn: u32,
    pub actor: NamespacedName,
    pub model: ModelChoice,
    /// The blob that holds the request.
    pub request: String,
    /// What the request and an answer of usual length may spend.
    pub reserved: ModelSpend,
    /// What the request and the longest answer that it allows may spend.
    #[serde(default)]
    pub maximum: ModelSpend,
    /// The maximum length of the answer in tokens, where the budget pays for less than the model
    /// may write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_limit: Option<u64>,
    /// The number of the plan's newest tool call at the time of the request.
    pub after_call: i64,
}

/// A stored model call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelCallRecord {
    #[serde(flatten)]
    pub call: NewModelCall,
    /// Position among the plan's model calls: 1, 2, 3 … Assigned by the store.
    pub number: i64,
    /// The number of earlier calls of the plan's actor. Assigned by the store.
    pub ordinal: u64,
    pub state: ModelCallState,
    /// The blob that holds the answer.
    pub answer: Option<String>,
    pub usage: Usage,
    /// The spending that counts. Until the call has ended, this is the whole reservation.
    pub spent: ModelSpend,
    /// Whether `usage` and `spent` are estimates, because the provider reported no usage.
    pub is_estimate: bool,
    pub error: Option<String>,
    pub started_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    /// The checkpoint that preserves the consequences of the call, if a rollback undid them.
    pub undone_by: Option<CheckpointId>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelCallEnd {
    pub state: ModelCallState,
    pub answer: Option<String>,
    pub usage: Usage,
    pub spent: ModelSpend,
    /// Whether `usage` and `spent` are estimates, because the provider reported no usage.
    #[serde(default)]
    pub is_estimate: bool,
    pub error: Option<String>,
}

/// The part of a budget that was spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelSpend {
    pub tokens: u64,
    /// In US dollars; `None` if the price of the model is unknown.
    pub usd: Option<f64>,
}

impl ModelSpend {
    /// Returns the larger of each number.
    #[must_use]
    pub fn larger(self, other: Self) -> Self {
        let usd = self.usd.zip(other.usd).map(|(one, two)| one.max(two));
        Self {
            tokens: self.tokens.max(other.tokens),
            usd: usd.or(self.usd).or(other.usd),
        }
    }
}

/// The model calls of a plan, added up.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ModelTotals {
    /// The usage that providers reported.
    pub reported: Usage,
    /// The cost of the reported usage in US dollars.
    pub reported_usd: f64,
    /// The tokens of calls without reported usage: running, interrupted and broken off.
    pub estimated_tokens: u64,
    /// The cost of the estimated tokens in US dollars.
    pub estimated_usd: f64,
    /// Whether reported usage lacks a price.
    pub has_unpriced_usage: bool,
    /// Whether estimated tokens lack a price.
    pub has_unpriced_estimate: bool,
}

impl ModelTotals {
    /// Returns what counts against a budget: all tokens, and the cost of those with a price.
    pub const fn counted(&self) -> ModelSpend {
        let reported = self.reported.input_tokens + self.reported.output_tokens;
        ModelSpend {
            tokens: reported + self.estimated_tokens,
            usd: Some(self.reported_usd + self.estimated_usd),
        }
    }
}

text_enum! {
    ModelCallState: "state of a model call" {
        /// Sent. The provider may have answered without a record of it.
        Asked = "asked",
        Answered = "answered",
        Failed = "failed",
        /// The owner stopped or died during the call; what it may have spent is an estimate.
        Interrupted = "interrupted",
    }
}

//! Payloads about requests to models, of plans and of prompts outside plans.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::nullable;
use crate::action::Budget;
use crate::error_record::ErrorCategory;
use crate::id::ModelCallId;
use crate::model::{FinishReason, ModelChoice, Usage};
use crate::model_call::ModelSpend;
use crate::name::NamespacedName;

/// A model request was started and its cost reserved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelAsked {
    pub model_call_id: ModelCallId,
    /// Position among the plan's model calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<i64>,
    pub actor: NamespacedName,
    pub model: AskedModel,
    /// The conversation of the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<String>,
    /// The turn of the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
    /// The attempt of a prompt outside plans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The blob that holds the request.
    pub request: String,
    /// What the request of a plan and an answer of usual length may spend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<ModelSpend>,
}

/// The model of a request. Plans write it as text, prompts outside plans as an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum AskedModel {
    Text(String),
    Choice(ModelChoice),
}

impl fmt::Display for AskedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Choice(choice) => choice.fmt(f),
        }
    }
}

/// A model answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelAnswered {
    pub model_call_id: ModelCallId,
    /// Position among the plan's model calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
    /// The blob that holds the answer.
    pub answer: String,
    pub finish: FinishReason,
    /// The tools that the model of a plan called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<String>>,
    pub usage: Usage,
    /// In US dollars; `None` if no price is configured.
    pub usd: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
}

/// A model request failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelFailed {
    pub model_call_id: ModelCallId,
    /// Position among the plan's model calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
    pub category: ErrorCategory,
    pub error: String,
    /// What the attempt of a plan cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<ModelSpend>,
    /// The delay before the next attempt of a plan; `Some(None)` if there is none.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "nullable"
    )]
    pub retry_in_ms: Option<Option<u64>>,
}

/// The owner stopped or died during a model request; what it may have spent is an estimate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelInterrupted {
    pub model_call_id: ModelCallId,
    pub number: i64,
    pub spent: ModelSpend,
}

/// A plan has nearly used up its budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BudgetWarning {
    pub limit: Budget,
    pub used: ModelSpend,
    /// Reservation of the next request.
    pub reserved: ModelSpend,
}

/// A plan's budget does not allow the next request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BudgetExceeded {
    pub limit: Budget,
    pub used: ModelSpend,
    /// Reservation of the refused request.
    pub wanted: ModelSpend,
    pub model: String,
}

//! `plan.prompt`

use cleveragents_domain::id::MessageId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PlanReference, PlanSummary};
use crate::request::{Request, RequestKind};

/// Sends guidance to a plan, or answers its question.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanPrompt {
    pub plan: PlanReference,
    pub guidance: String,
}

impl Request for PlanPrompt {
    type Answer = SentGuidance;
    const NAME: &'static str = "plan.prompt";
    const KIND: RequestKind = RequestKind::Write;
}

/// The guidance as it was recorded.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SentGuidance {
    #[serde(flatten)]
    pub plan: PlanSummary,
    pub guidance: String,
    pub message_id: MessageId,
    /// Position among the plan's messages: 1, 2, 3 …
    pub sequence: i64,
    pub delivered_to: GuidanceRecipient,
}

/// The process that reads the guidance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GuidanceRecipient {
    /// The process that runs the plan.
    Owner,
    /// The next process that runs it.
    NextOwner,
}

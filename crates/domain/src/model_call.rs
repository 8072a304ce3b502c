//! What is remembered of each time a model was asked.

use serde::{Deserialize, Serialize};

use crate::id::{CheckpointId, ModelCallId, PlanId};
use crate::lifecycle::Phase;
use crate::model::{ModelChoice, Usage};
use crate::name::NamespacedName;
use crate::text_enum::text_enum;
use crate::time::Timestamp;

/// One conversation of a plan with a model: what belongs together and is gone on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ConversationKey {
    pub phase: Phase,
    /// The number of the strategy that is carried out, or how many there are while the next one is
    /// looked for.
    pub strategy: i64,
    /// The step of the strategy, counted from 1; 0 before there is one.
    pub step: u32,
    /// Which attempt to mend what validations found wrong; 0 is the work itself.
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

/// A model that is about to be asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewModelCall {
    pub id: ModelCallId,
    pub plan_id: PlanId,
    pub conversation: ConversationKey,
    /// Which turn of the conversation, counted from 1.
    pub turn: u32,
    pub actor: NamespacedName,
    pub model: ModelChoice,
    /// The blob that says what is asked.
    pub request: String,
    /// What may be used up at most.
    pub reserved: ModelSpend,
    /// The newest call of a tool when it was asked.
    pub after_call: i64,
}

/// A call as it stands in the plan's record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelCallRecord {
    #[serde(flatten)]
    pub call: NewModelCall,
    /// Place among the plan's calls of models: 1, 2, 3 … Given by the store.
    pub number: i64,
    /// How many calls the plan's actor had made before. Given by the store.
    pub ordinal: u64,
    pub state: ModelCallState,
    /// The blob that holds the answer.
    pub answer: Option<String>,
    pub usage: Usage,
    /// What counts as used up; until the call has ended all that was reserved.
    pub spent: ModelSpend,
    pub error: Option<String>,
    pub started_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    /// The checkpoint that holds what followed from it, if that was undone by going back further.
    pub undone_by: Option<CheckpointId>,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelCallEnd {
    pub state: ModelCallState,
    pub answer: Option<String>,
    pub usage: Usage,
    pub spent: ModelSpend,
    pub error: Option<String>,
}

/// What was used up of a budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelSpend {
    pub tokens: u64,
    pub usd: f64,
}

text_enum! {
    /// How far a call of a model has come.
    ModelCallState: "state of a model call" {
        /// Asked, and perhaps answered without anybody knowing.
        Asked = "asked",
        Answered = "answered",
        Failed = "failed",
        /// Its owner died during it; what was reserved counts as used up.
        Interrupted = "interrupted",
    }
}

//! Payloads about the work of actors on a plan.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lifecycle::Phase;
use crate::name::NamespacedName;

/// An actor began a step of the strategy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActorInvoked {
    pub actor: NamespacedName,
    /// Counted from 1.
    pub step: u32,
    /// The number of steps of the strategy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// The title of the step.
    pub title: String,
}

/// An actor finished a step of the strategy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActorCompleted {
    pub actor: NamespacedName,
    pub phase: Phase,
    pub step: u32,
}

/// An actor could not finish a step of the strategy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActorErrored {
    pub actor: NamespacedName,
    pub step: u32,
    pub reason: String,
}

/// The instructions that a resource has for actors were read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InstructionsRead {
    pub instructions: Vec<InstructionFile>,
    /// The number of skills offered with them.
    pub skills: u64,
}

/// A file with instructions, as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InstructionFile {
    /// The path as actors see it.
    pub path: String,
    pub hash: String,
}

/// Old turns of a conversation were replaced by a summary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConversationCompacted {
    pub conversation: String,
    pub turn: u32,
    pub messages_before: u64,
    pub messages_after: u64,
    pub tokens_before: u64,
    pub tokens_after: u64,
}

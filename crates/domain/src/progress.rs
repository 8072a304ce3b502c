//! The current activity of a running plan.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::NamespacedName;

/// A sign of progress between two events of a plan. It is not stored, and may be lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Progress {
    /// All slots of this node are taken by other plans.
    WaitingForSlot { running: usize },
    /// A part of a model's answer.
    ModelText {
        /// The position of the request among the plan's model calls.
        #[serde(default)]
        model_call: i64,
        text: String,
    },
    /// A tool call begins.
    CallStarted { tool: NamespacedName },
    /// A call of a model failed and is repeated after a delay.
    ModelRetry {
        /// The attempt that failed, counted from 1.
        attempt: u32,
        /// The number of attempts, including the first.
        max_attempts: u32,
        delay_ms: u64,
        error: String,
    },
}

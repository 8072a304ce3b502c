//! Scripts: the predefined answers and failures of a scripted model, turn by turn.
//!
//! A script replaces a model in demonstrations and tests. It can reproduce every kind of model
//! failure.

use std::time::Duration;

use crate::model::{AnswerToolCall, Price, Usage};
use crate::text_enum::text_enum;

/// The maximum number of turns in a script.
pub const TURNS_MAXIMUM: usize = 10_000;
/// The maximum delay, and the maximum `retry_after`, in seconds.
pub const WAIT_MAXIMUM: u64 = 24 * 60 * 60;

#[derive(Debug, Clone, PartialEq)]
pub struct ModelScript {
    /// The answers. The first request gets the first turn, and so on.
    pub turns: Vec<ScriptTurn>,
    /// Zero, unless the script states a price to exercise budgets.
    pub price: Price,
    pub context_tokens: u64,
    pub answer_tokens: u64,
}

/// The answer to one request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScriptTurn {
    pub text: String,
    pub tool_calls: Vec<AnswerToolCall>,
    /// The reported usage; computed if `None`.
    pub usage: Option<Usage>,
    /// The delay before the first part of the answer; for a slow answer, before every part.
    pub delay: Duration,
    pub fault: Option<ScriptFault>,
}

/// A failure of a turn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScriptFault {
    pub kind: FaultKind,
    /// When the caller should retry; for a slow answer, the pause before each part.
    pub retry_after: Option<Duration>,
}

text_enum! {
    /// The ways in which a model request can fail.
    FaultKind: "kind of fault" {
        /// Too many requests.
        RateLimit = "rate_limit",
        /// No answer before the timeout.
        Timeout = "timeout",
        /// The provider returned a server error.
        ServerError = "server_error",
        /// The stream ends before the answer is complete.
        Truncated = "truncated",
        /// The stream contains invalid JSON.
        MalformedJson = "malformed_json",
        /// The answer is complete, but every part is delayed.
        Slow = "slow",
    }
}

impl FaultKind {
    /// Returns whether parts of an answer arrive despite the fault.
    pub fn has_parts(self) -> bool {
        match self {
            Self::RateLimit | Self::Timeout | Self::ServerError => false,
            Self::Truncated | Self::MalformedJson | Self::Slow => true,
        }
    }
}

//! Scripts: what a scripted model answers, turn by turn, and how it fails.
//!
//! A script stands in for a model where none is wanted: in demonstrations and in tests. What is
//! hard about models, that they fail and how, is what it can say best.

use std::time::Duration;

use crate::model::{AnswerToolCall, Price, Usage};
use crate::text_enum::text_enum;

/// How many turns a script may have.
pub const TURNS_MAXIMUM: usize = 10_000;
/// The longest a turn may wait, or ask to wait, in seconds.
pub const WAIT_MAXIMUM: u64 = 24 * 60 * 60;

/// All that a scripted model is.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelScript {
    /// What each request gets, the first request the first turn.
    pub turns: Vec<ScriptTurn>,
    /// Nothing, unless the script states a price to try budgets with.
    pub price: Price,
    pub context_tokens: u64,
    pub answer_tokens: u64,
}

/// What one request gets.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScriptTurn {
    pub text: String,
    pub tool_calls: Vec<AnswerToolCall>,
    /// What it says it used; it is worked out if nothing is stated.
    pub usage: Option<Usage>,
    /// How long the first part of the answer takes; for a slow one, every part.
    pub delay: Duration,
    pub fault: Option<ScriptFault>,
}

/// How a turn goes wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScriptFault {
    pub kind: FaultKind,
    /// When the model wants to be asked again; for a slow answer, the pause before each part.
    pub retry_after: Option<Duration>,
}

text_enum! {
    /// The ways in which an attempt to ask a model goes wrong.
    FaultKind: "kind of fault" {
        /// Too many requests.
        RateLimit = "rate_limit",
        /// No answer in time.
        Timeout = "timeout",
        /// The provider failed.
        ServerError = "server_error",
        /// The stream ends before the answer does.
        Truncated = "truncated",
        /// What comes in mid-stream cannot be read.
        MalformedJson = "malformed_json",
        /// The answer is whole, and every part of it takes its time.
        Slow = "slow",
    }
}

impl FaultKind {
    /// Whether parts of an answer arrive before, or in spite of, the fault.
    pub fn has_parts(self) -> bool {
        match self {
            Self::RateLimit | Self::Timeout | Self::ServerError => false,
            Self::Truncated | Self::MalformedJson | Self::Slow => true,
        }
    }
}

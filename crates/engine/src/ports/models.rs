//! Models: one method that streams an answer; what a model is and can do is data.
//!
//! An adapter makes one attempt, says exactly how it failed, and bounds how much is asked of its
//! provider at once. Trying again, breakers, budgets, the journal and what is stored are the
//! engine's. Dropping a stream ends the request.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::ErrorCategory;
use cleveragents_domain::model::{FinishReason, ModelChoice, ModelRequest, Price, Usage};
use futures_core::Stream;

/// Every model that can be asked.
pub trait Models: Send + Sync + Debug {
    /// The model, if its provider is configured; nothing is asked of it yet.
    fn open(&self, choice: &ModelChoice) -> Result<Arc<dyn Model>, ModelError>;

    /// The models that can be used as they are, in order of preference: those of providers whose
    /// keys or addresses are there.
    fn configured(&self) -> Vec<ModelChoice>;
}

/// For work that asks no model.
#[derive(Debug, Clone, Copy)]
pub struct NoModels;

impl Models for NoModels {
    fn open(&self, choice: &ModelChoice) -> Result<Arc<dyn Model>, ModelError> {
        Err(ModelError {
            kind: ModelErrorKind::Unavailable,
            message: format!("{choice} cannot be asked here"),
            retry_after: None,
        })
    }

    fn configured(&self) -> Vec<ModelChoice> {
        Vec::new()
    }
}

/// One model of one provider.
pub trait Model: Send + Sync + Debug {
    fn facts(&self) -> &ModelFacts;

    /// How many tokens the request has at most, found without asking anybody.
    fn count_tokens(&self, request: &ModelRequest) -> u64;

    /// Asks. `ordinal` says how many attempts this plan's actor has made before, failed ones too.
    fn stream(&self, request: &ModelRequest, ordinal: u64) -> ModelStream;
}

/// What is known of a model before it is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelFacts {
    pub choice: ModelChoice,
    /// Nothing if nobody stated one.
    pub price: Option<Price>,
    /// How many tokens request and answer may have together.
    pub context_tokens: u64,
    /// How many tokens an answer may have if the request says nothing.
    pub answer_tokens: u64,
}

/// The parts of an answer as they arrive. After an error nothing follows; a stream that ends
/// without [`Delta::Finished`] never ends well: the adapter makes that an error.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<Delta, ModelError>> + Send>>;

/// A part of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    Text(String),
    /// A part of the call with this index, counted from 0; a name comes whole and first.
    ToolCall {
        index: usize,
        tool: Option<String>,
        arguments: String,
    },
    /// What was used so far; the last one counts.
    Usage(Usage),
    Finished(FinishReason),
}

/// Why there is no answer. Nothing in it is secret.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    pub kind: ModelErrorKind,
    /// What happened, with the provider's own words where it said any.
    pub message: String,
    /// When the provider wants to be asked again.
    pub retry_after: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModelErrorKind {
    /// Too many requests.
    RateLimit,
    /// No answer, or no next part of it, in time.
    Timeout,
    /// The provider failed (a status of 500 or more, or an error in mid-stream).
    Server,
    /// It could not be reached, or the connection broke.
    Network,
    /// The stream ended before the answer did.
    Truncated,
    /// What came cannot be read.
    Malformed,
    /// The key is missing, wrong or may not do this.
    Auth,
    /// Request and answer do not fit the model.
    ContextOverflow,
    /// The provider refuses this request as it is.
    InvalidRequest,
    /// No such provider or model, or it is not configured.
    Unavailable,
}

impl ModelErrorKind {
    /// Whether asking again may help.
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            Self::RateLimit
                | Self::Timeout
                | Self::Server
                | Self::Network
                | Self::Truncated
                | Self::Malformed
        )
    }

    /// What it is on record as.
    pub const fn category(self) -> ErrorCategory {
        match self {
            Self::RateLimit => ErrorCategory::RateLimit,
            Self::Timeout => ErrorCategory::Timeout,
            Self::Server | Self::Network | Self::Truncated => ErrorCategory::TransientNetwork,
            Self::Malformed | Self::InvalidRequest => ErrorCategory::ModelOutput,
            Self::Auth => ErrorCategory::Auth,
            Self::ContextOverflow => ErrorCategory::Budget,
            Self::Unavailable => ErrorCategory::Resource,
        }
    }
}

//! Models: one method that streams an answer. Properties of a model are data.
//!
//! An adapter makes one attempt, reports exactly how it failed, and limits the concurrent requests
//! to its provider. Retries, circuit breakers, budgets, the journal and storage belong to the
//! engine. Dropping a stream ends the request.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::ErrorCategory;
use cleveragents_domain::model::{FinishReason, ModelChoice, ModelRequest, Price, Usage};
use futures_core::Stream;

/// All available models.
pub trait Models: Send + Sync + Debug {
    /// Returns the model if its provider is configured. Sends no request yet.
    fn open(&self, choice: &ModelChoice) -> Result<Arc<dyn Model>, ModelError>;

    /// Returns the usable models in order of preference: those of providers whose keys or addresses
    /// are configured.
    fn configured(&self) -> Vec<ModelChoice>;

    /// Returns the model that the user chose as the default, usable or not.
    fn preferred(&self) -> Option<ModelChoice>;
}

/// Providers that can be asked which models they have.
pub trait ModelProviders: Send + Sync + Debug {
    /// Asks the provider for the ids of its models, in one request to its configured address. Fails
    /// with [`ModelErrorKind::Timeout`] after `limit`. A provider without an address, such as that
    /// of scripts, is [`ModelErrorKind::Unavailable`].
    fn list_models(&self, provider: &str, limit: Duration) -> ModelListing;
}

/// The ids of a provider's models, or why it did not answer.
pub type ModelListing = Pin<Box<dyn Future<Output = Result<Vec<String>, ModelError>> + Send>>;

/// For work that needs no model.
#[derive(Debug, Clone, Copy)]
pub struct NoModels;

impl Models for NoModels {
    fn open(&self, choice: &ModelChoice) -> Result<Arc<dyn Model>, ModelError> {
        Err(ModelError {
            kind: ModelErrorKind::Unavailable,
            message: format!("{choice} is not available here"),
            retry_after: None,
            answer_began: false,
        })
    }

    fn configured(&self) -> Vec<ModelChoice> {
        Vec::new()
    }

    fn preferred(&self) -> Option<ModelChoice> {
        None
    }
}

/// One model of one provider.
pub trait Model: Send + Sync + Debug {
    fn facts(&self) -> &ModelFacts;

    /// Returns an upper bound of the request's token count, computed locally.
    fn count_tokens(&self, request: &ModelRequest) -> u64;

    /// Sends the request. `ordinal` is the number of earlier attempts of this plan's actor,
    /// including failed ones.
    fn stream(&self, request: &ModelRequest, ordinal: u64) -> ModelStream;
}

/// Known properties of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelFacts {
    pub choice: ModelChoice,
    /// `None` if no price is configured.
    pub price: Option<Price>,
    /// Maximum number of tokens of request and answer together.
    pub context_tokens: u64,
    /// Maximum number of tokens of an answer if the request sets no limit.
    pub answer_tokens: u64,
}

/// The parts of an answer as they arrive. Nothing follows an error. If a stream ends without
/// [`Delta::Finished`], the adapter must return an error.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<Delta, ModelError>> + Send>>;

/// A part of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    Text(String),
    /// A part of the call with this index, starting at 0. The name is complete and comes first.
    ToolCall {
        index: usize,
        tool: Option<String>,
        arguments: String,
    },
    /// The usage so far; the last one counts.
    Usage(Usage),
    Finished(FinishReason),
}

/// Error of a model request. Contains no secrets.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    pub kind: ModelErrorKind,
    /// The error, with the provider's own message if there is one.
    pub message: String,
    /// When the provider accepts requests again.
    pub retry_after: Option<Duration>,
    /// Whether the provider had accepted the request and begun to answer, so that it may charge
    /// for it.
    pub answer_began: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModelErrorKind {
    /// Too many requests.
    RateLimit,
    /// No answer, or no next part of it, in time.
    Timeout,
    /// The provider failed (status 500 or higher, or an error during the stream).
    Server,
    /// The provider could not be reached, or the connection broke.
    Network,
    /// The stream ended before the answer did.
    Truncated,
    /// The response cannot be parsed.
    Malformed,
    /// The key is missing, wrong or lacks permission.
    Auth,
    /// Request and answer exceed the model's context.
    ContextOverflow,
    /// The provider rejects this request.
    InvalidRequest,
    /// No such provider or model, or it is not configured.
    Unavailable,
}

impl ModelErrorKind {
    /// Whether a retry may help.
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

    /// The category under which the error is recorded.
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

//! User settings for model providers and their models.

use std::time::Duration;

use crate::model::{ModelChoice, Price};
use crate::text_enum::text_enum;

text_enum! {
    /// The API of a provider.
    ProviderKind: "kind of provider" {
        /// The OpenAI chat completions API, which most servers implement.
        OpenAi = "openai",
        /// The Anthropic messages API.
        Anthropic = "anthropic",
        /// A script file.
        Scripted = "scripted",
    }
}

/// User settings for one provider. `None` means the built-in value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProviderDefinition {
    pub name: String,
    pub kind: Option<ProviderKind>,
    pub base_url: Option<String>,
    /// The environment variable that holds the API key. A key itself is never written to a file.
    pub key_variable: Option<String>,
    /// The maximum number of concurrent requests.
    pub concurrency: Option<u32>,
    pub requests_per_minute: Option<u32>,
    pub timeouts: TimeoutsDefinition,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimeoutsDefinition {
    /// For establishing a connection.
    pub connect: Option<Duration>,
    /// Until the first part of an answer.
    pub first_part: Option<Duration>,
    /// Between two parts of an answer.
    pub between_parts: Option<Duration>,
    /// For the whole answer.
    pub whole: Option<Duration>,
}

/// User settings for one model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelDefinition {
    pub choice: ModelChoice,
    pub price: Option<Price>,
    pub context_tokens: Option<u64>,
    pub answer_tokens: Option<u64>,
}

/// All provider and model settings, in file order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelDefinitions {
    pub providers: Vec<ProviderDefinition>,
    pub models: Vec<ModelDefinition>,
}

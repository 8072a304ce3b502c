//! Who has models, and what is known of them: what users state about providers and models.

use std::time::Duration;

use crate::model::{ModelChoice, Price};
use crate::text_enum::text_enum;

text_enum! {
    /// The language a provider speaks.
    ProviderKind: "kind of provider" {
        /// Chat completions as OpenAI has them; most servers speak them.
        OpenAi = "openai",
        /// Messages as Anthropic has them.
        Anthropic = "anthropic",
        /// A script in a file.
        Scripted = "scripted",
    }
}

/// What a user states about a provider; what is left out is as it is built in.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProviderDefinition {
    pub name: String,
    pub kind: Option<ProviderKind>,
    pub base_url: Option<String>,
    /// The environment variable that holds the key. A key itself is never written into a file.
    pub key_variable: Option<String>,
    /// How many requests may be under way at once.
    pub concurrency: Option<u32>,
    pub requests_per_minute: Option<u32>,
    pub timeouts: TimeoutsDefinition,
}

/// How long a provider is waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimeoutsDefinition {
    /// For a connection.
    pub connect: Option<Duration>,
    /// For the first part of an answer.
    pub first_part: Option<Duration>,
    /// From one part to the next.
    pub between_parts: Option<Duration>,
    /// For the whole answer.
    pub whole: Option<Duration>,
}

/// What is stated about a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelDefinition {
    pub choice: ModelChoice,
    pub price: Option<Price>,
    pub context_tokens: Option<u64>,
    pub answer_tokens: Option<u64>,
}

/// Everything that is stated, in the order of the file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelDefinitions {
    pub providers: Vec<ProviderDefinition>,
    pub models: Vec<ModelDefinition>,
}

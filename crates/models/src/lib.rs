//! The models behind the engine's port: providers with an OpenAI or Anthropic API over HTTP, and
//! scripts that replace a model.
//!
//! An adapter makes one attempt and reports exactly how it failed; the engine retries. It reads
//! neither the environment nor settings files: [`ModelSettings`] is its only input, and nothing is
//! opened or loaded before a model is requested. Start reading at [`ConfiguredModels`], then
//! `wire`, which both APIs share.

mod anthropic;
mod built_in;
mod catalogue;
mod configured;
mod endpoint;
mod limiter;
mod listing;
mod openai;
mod scripted;
mod secret;
mod settings;
mod tokens;
mod wire;

pub use built_in::{BUILT_IN, BuiltInProvider};
pub use configured::ConfiguredModels;
pub use secret::Secret;
pub use settings::{
    ModelSettings, ProviderAccess, ProviderSettings, ProviderStatus, Proxies, ScriptParser,
    ScriptSettings, Timeouts,
};

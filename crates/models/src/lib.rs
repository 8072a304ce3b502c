//! The models behind the engine's port: providers that speak OpenAI's or Anthropic's language over
//! HTTP, and scripts that stand in for a model.
//!
//! An adapter makes one attempt and says exactly how it failed; trying again is the engine's. It
//! reads no environment and no settings: [`ModelSettings`] is all it knows, and nothing is opened
//! or loaded before a model is asked for. Start reading at [`ConfiguredModels`], then `wire`, which
//! both languages share.

mod anthropic;
mod built_in;
mod catalogue;
mod configured;
mod limiter;
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
    ModelSettings, ProviderAccess, ProviderSettings, ProviderStatus, Proxies, ScriptSettings,
    Timeouts,
};

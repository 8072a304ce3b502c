//! The providers this program knows by name.

use cleveragents_domain::provider::ProviderKind;

use crate::settings::{ProviderAccess, ProviderSettings, ProviderStatus, Timeouts};

/// A provider that works without user settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltInProvider {
    pub name: &'static str,
    pub kind: ProviderKind,
    pub base_url: &'static str,
    /// The environment variable that its own tools read; `None` for servers on the local machine.
    pub key_variable: Option<&'static str>,
    /// The maximum number of concurrent requests; a local server has few slots.
    pub concurrency: u32,
}

const fn vendor(
    name: &'static str,
    kind: ProviderKind,
    base_url: &'static str,
    key_variable: &'static str,
) -> BuiltInProvider {
    BuiltInProvider {
        name,
        kind,
        base_url,
        key_variable: Some(key_variable),
        concurrency: 8,
    }
}

const fn local(name: &'static str, base_url: &'static str) -> BuiltInProvider {
    BuiltInProvider {
        name,
        kind: ProviderKind::OpenAi,
        base_url,
        key_variable: None,
        concurrency: 2,
    }
}

/// All built-in providers, in order of preference.
pub const BUILT_IN: [BuiltInProvider; 9] = [
    vendor(
        "anthropic",
        ProviderKind::Anthropic,
        "https://api.anthropic.com",
        "ANTHROPIC_API_KEY",
    ),
    vendor(
        "openai",
        ProviderKind::OpenAi,
        "https://api.openai.com/v1",
        "OPENAI_API_KEY",
    ),
    vendor(
        "openrouter",
        ProviderKind::OpenAi,
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
    ),
    vendor(
        "groq",
        ProviderKind::OpenAi,
        "https://api.groq.com/openai/v1",
        "GROQ_API_KEY",
    ),
    vendor(
        "together",
        ProviderKind::OpenAi,
        "https://api.together.xyz/v1",
        "TOGETHER_API_KEY",
    ),
    local("ollama", "http://127.0.0.1:11434/v1"),
    local("lmstudio", "http://127.0.0.1:1234/v1"),
    local("llamacpp", "http://127.0.0.1:8080/v1"),
    local("vllm", "http://127.0.0.1:8000/v1"),
];

impl BuiltInProvider {
    pub fn find(name: &str) -> Option<&'static Self> {
        BUILT_IN.iter().find(|provider| provider.name == name)
    }

    /// The settings used if the user states nothing.
    pub fn settings(&self) -> ProviderSettings {
        ProviderSettings {
            name: self.name.to_owned(),
            kind: self.kind,
            base_url: Some(self.base_url.to_owned()),
            access: match self.key_variable {
                None => ProviderAccess::Free,
                Some(variable) => ProviderAccess::Missing {
                    expected_variable: variable.to_owned(),
                },
            },
            status: ProviderStatus::NotConfigured,
            concurrency: self.concurrency,
            requests_per_minute: None,
            timeouts: Timeouts::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_addresses_have_no_trailing_slash() {
        for (index, provider) in BUILT_IN.iter().enumerate() {
            let first = BUILT_IN.iter().position(|one| one.name == provider.name);
            assert_eq!(first, Some(index));
            assert!(!provider.base_url.ends_with('/'), "{}", provider.name);
            let is_local = provider.base_url.starts_with("http://127.0.0.1:");
            assert_eq!(is_local, provider.key_variable.is_none());
        }
    }
}

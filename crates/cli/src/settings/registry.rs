//! The table of settings. A new setting is a row here; its readers are in `bootstrap`.

use super::value::ValueKind;
use crate::failure::excerpt;

/// A setting. [`Key::setting`] returns its row in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    Format,
    DatabaseUrl,
    LogLevel,
    AutomationProfile,
    PlanConcurrency,
    SandboxConfinement,
    SandboxNetwork,
    SandboxReadablePaths,
    SandboxWritablePaths,
    SandboxAllowFilters,
    SandboxCheckpoints,
    SandboxMemory,
    SandboxProcesses,
    SandboxFileSize,
    SandboxDisk,
    SandboxCapturedFiles,
    SandboxCapturedSize,
    OperationsDays,
    BlobGraceHours,
    OpenAiApiKey,
    OpenAiBaseUrl,
    AnthropicApiKey,
    AnthropicBaseUrl,
    OpenRouterApiKey,
    GroqApiKey,
    TogetherApiKey,
    OllamaBaseUrl,
    LmStudioBaseUrl,
    LlamaCppBaseUrl,
    VllmBaseUrl,
    ModelDefault,
    ModelReservedAnswerTokens,
}

/// The default of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    Text(&'static str),
    /// The SQLite file in the data directory.
    DatabaseInDataDirectory,
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingScope {
    /// Only the user: a repository must not choose where data or credentials go.
    User,
    /// The user, and a project that wants something stricter. The choices are listed from strict to
    /// permissive; a project's value is ignored if it is more permissive than the one it would
    /// replace.
    Project,
}

#[derive(Debug)]
pub struct Setting {
    pub key: Key,
    pub name: &'static str,
    pub kind: ValueKind,
    pub preset: Preset,
    pub scope: SettingScope,
    /// The variable that the vendor's own programs read; used if ours is unset.
    pub vendor_variable: Option<&'static str>,
    pub description: &'static str,
}

pub const FORMATS: &[&str] = &["rich", "color", "table", "plain", "json", "yaml"];
pub const LOG_LEVELS: &[&str] = &["error", "warn", "info", "debug", "trace"];
/// From strict to permissive; a project may only choose something stricter.
pub const AUTOMATION_PROFILES: &[&str] = &[
    "manual",
    "review",
    "supervised",
    "cautious",
    "trusted",
    "auto",
    "ci",
    "full-auto",
];

/// From strict to permissive.
pub const NETWORKS: &[&str] = &["deny", "allow"];
pub const CONFINEMENTS: &[&str] = &["best", "namespaces", "landlock", "none"];

pub const CHECKPOINTS: &[&str] = &[
    "on_tool_write",
    "on_tool_write_complete",
    "on_subplan_spawn",
    "on_error",
    "none",
];

/// All settings, in the order of [`Key`].
pub static SETTINGS: [Setting; 32] = [
    Setting {
        key: Key::Format,
        name: "core.format",
        kind: ValueKind::Choice(FORMATS),
        preset: Preset::Text("rich"),
        scope: SettingScope::User,
        vendor_variable: None,
        description: "Output format on a terminal",
    },
    Setting {
        key: Key::DatabaseUrl,
        name: "core.database-url",
        kind: ValueKind::Url,
        preset: Preset::DatabaseInDataDirectory,
        scope: SettingScope::User,
        vendor_variable: None,
        description: "The database: postgresql://…, else SQLite in the data directory",
    },
    Setting {
        key: Key::LogLevel,
        name: "core.log-level",
        kind: ValueKind::Choice(LOG_LEVELS),
        preset: Preset::Text("warn"),
        scope: SettingScope::User,
        vendor_variable: None,
        description: "What is logged to stderr without -v",
    },
    Setting {
        key: Key::AutomationProfile,
        name: "core.automation-profile",
        kind: ValueKind::Choice(AUTOMATION_PROFILES),
        preset: Preset::Text("supervised"),
        scope: SettingScope::Project,
        vendor_variable: None,
        description: "Default automation profile: what needs your approval",
    },
    Setting {
        key: Key::PlanConcurrency,
        name: "plan.concurrency",
        kind: ValueKind::Integer(1, 64),
        preset: Preset::Text("4"),
        scope: SettingScope::User,
        vendor_variable: None,
        description: "How many plans run at once; further ones queue",
    },
    Setting {
        key: Key::SandboxConfinement,
        name: "sandbox.confinement",
        kind: ValueKind::Choice(CONFINEMENTS),
        preset: Preset::Text("best"),
        scope: SettingScope::User,
        vendor_variable: None,
        description: "How commands are confined: `best` is the strongest that works here; others \
                      are required as named",
    },
    Setting {
        key: Key::SandboxNetwork,
        name: "sandbox.network",
        kind: ValueKind::Choice(NETWORKS),
        preset: Preset::Text("deny"),
        scope: SettingScope::Project,
        vendor_variable: None,
        description: "Whether commands of plans may use the network",
    },
    Setting {
        key: Key::SandboxReadablePaths,
        name: "sandbox.readable-paths",
        kind: ValueKind::Paths,
        preset: Preset::Nothing,
        scope: SettingScope::User,
        vendor_variable: None,
        description: "Paths that commands of plans may read besides system, toolchains and their \
                      sandbox",
    },
    Setting {
        key: Key::SandboxWritablePaths,
        name: "sandbox.writable-paths",
        kind: ValueKind::Paths,
        preset: Preset::Nothing,
        scope: SettingScope::User,
        vendor_variable: None,
        description: "Paths that commands of plans may write besides their sandbox",
    },
    Setting {
        key: Key::SandboxAllowFilters,
        name: "sandbox.allow-filters",
        kind: ValueKind::Names,
        preset: Preset::Nothing,
        scope: SettingScope::User,
        vendor_variable: None,
        description: "Filters of git, such as lfs, whose files plans may change as git stores them",
    },
    Setting {
        key: Key::SandboxCheckpoints,
        name: "sandbox.checkpoint.auto-create-on",
        kind: ValueKind::Choices(CHECKPOINTS),
        preset: Preset::Text("on_tool_write,on_tool_write_complete,on_subplan_spawn,on_error"),
        scope: SettingScope::User,
        vendor_variable: None,
        description: "When checkpoints are created automatically; `none` for never",
    },
    Setting {
        key: Key::SandboxMemory,
        name: "sandbox.limits.memory-mib",
        kind: ValueKind::Integer(16, 1 << 24),
        preset: Preset::Text("8192"),
        scope: SettingScope::User,
        vendor_variable: None,
        description: "MiB of memory that all processes of a command may use together",
    },
    Setting {
        key: Key::SandboxProcesses,
        name: "sandbox.limits.processes",
        kind: ValueKind::Integer(16, 1 << 20),
        preset: Preset::Text("4096"),
        scope: SettingScope::User,
        vendor_variable: None,
        description: "How many processes and threads a command may have at once",
    },
    Setting {
        key: Key::SandboxFileSize,
        name: "sandbox.limits.file-mib",
        kind: ValueKind::Integer(1, 1 << 24),
        preset: Preset::Text("4096"),
        scope: SettingScope::User,
        vendor_variable: None,
        description: "MiB of the largest file a command may write",
    },
    Setting {
        key: Key::SandboxDisk,
        name: "sandbox.limits.disk-mib",
        kind: ValueKind::Integer(1, 1 << 24),
        preset: Preset::Text("51200"),
        scope: SettingScope::User,
        vendor_variable: None,
        description: "MiB that a sandbox and its scratch folder may take on disk",
    },
    Setting {
        key: Key::SandboxCapturedFiles,
        name: "sandbox.limits.captured-files",
        kind: ValueKind::Integer(1, 1 << 24),
        preset: Preset::Text("200000"),
        scope: SettingScope::User,
        vendor_variable: None,
        description: "How many new files one call of a tool may leave",
    },
    Setting {
        key: Key::SandboxCapturedSize,
        name: "sandbox.limits.captured-mib",
        kind: ValueKind::Integer(1, 1 << 24),
        preset: Preset::Text("4096"),
        scope: SettingScope::User,
        vendor_variable: None,
        description: "MiB of new and changed files that one call of a tool may leave",
    },
    Setting {
        key: Key::OperationsDays,
        name: "retention.operations-days",
        kind: ValueKind::Integer(1, 3650),
        preset: Preset::Text("30"),
        scope: SettingScope::User,
        vendor_variable: None,
        description: "Days the results of operations are kept for repeated requests",
    },
    Setting {
        key: Key::BlobGraceHours,
        name: "retention.blob-grace-hours",
        kind: ValueKind::Integer(1, 8760),
        preset: Preset::Text("24"),
        scope: SettingScope::User,
        vendor_variable: None,
        description: "Hours an unused blob is kept before gc removes it",
    },
    Setting {
        key: Key::OpenAiApiKey,
        name: "provider.openai.api-key",
        kind: ValueKind::Secret,
        preset: Preset::Nothing,
        scope: SettingScope::User,
        vendor_variable: Some("OPENAI_API_KEY"),
        description: "API key for OpenAI and compatible services",
    },
    Setting {
        key: Key::OpenAiBaseUrl,
        name: "provider.openai.base-url",
        kind: ValueKind::Url,
        preset: Preset::Text("https://api.openai.com/v1"),
        scope: SettingScope::User,
        vendor_variable: None,
        description: "Base URL of OpenAI or a compatible service",
    },
    Setting {
        key: Key::AnthropicApiKey,
        name: "provider.anthropic.api-key",
        kind: ValueKind::Secret,
        preset: Preset::Nothing,
        scope: SettingScope::User,
        vendor_variable: Some("ANTHROPIC_API_KEY"),
        description: "API key for Anthropic",
    },
    Setting {
        key: Key::AnthropicBaseUrl,
        name: "provider.anthropic.base-url",
        kind: ValueKind::Url,
        preset: Preset::Text("https://api.anthropic.com"),
        scope: SettingScope::User,
        vendor_variable: None,
        description: "Base URL of Anthropic",
    },
    Setting {
        key: Key::OpenRouterApiKey,
        name: "provider.openrouter.api-key",
        kind: ValueKind::Secret,
        preset: Preset::Nothing,
        scope: SettingScope::User,
        vendor_variable: Some("OPENROUTER_API_KEY"),
        description: "API key for OpenRouter",
    },
    Setting {
        key: Key::GroqApiKey,
        name: "provider.groq.api-key",
        kind: ValueKind::Secret,
        preset: Preset::Nothing,
        scope: SettingScope::User,
        vendor_variable: Some("GROQ_API_KEY"),
        description: "API key for Groq",
    },
    Setting {
        key: Key::TogetherApiKey,
        name: "provider.together.api-key",
        kind: ValueKind::Secret,
        preset: Preset::Nothing,
        scope: SettingScope::User,
        vendor_variable: Some("TOGETHER_API_KEY"),
        description: "API key for Together",
    },
    Setting {
        key: Key::OllamaBaseUrl,
        name: "provider.ollama.base-url",
        kind: ValueKind::Url,
        preset: Preset::Nothing,
        scope: SettingScope::User,
        vendor_variable: None,
        description: "Base URL of Ollama",
    },
    Setting {
        key: Key::LmStudioBaseUrl,
        name: "provider.lmstudio.base-url",
        kind: ValueKind::Url,
        preset: Preset::Nothing,
        scope: SettingScope::User,
        vendor_variable: None,
        description: "Base URL of LM Studio",
    },
    Setting {
        key: Key::LlamaCppBaseUrl,
        name: "provider.llamacpp.base-url",
        kind: ValueKind::Url,
        preset: Preset::Nothing,
        scope: SettingScope::User,
        vendor_variable: None,
        description: "Base URL of llama.cpp's server",
    },
    Setting {
        key: Key::VllmBaseUrl,
        name: "provider.vllm.base-url",
        kind: ValueKind::Url,
        preset: Preset::Nothing,
        scope: SettingScope::User,
        vendor_variable: None,
        description: "Base URL of vLLM",
    },
    Setting {
        key: Key::ModelDefault,
        name: "model.default",
        kind: ValueKind::Text,
        preset: Preset::Nothing,
        scope: SettingScope::User,
        vendor_variable: None,
        description: "Default model, as PROVIDER/MODEL",
    },
    Setting {
        key: Key::ModelReservedAnswerTokens,
        name: "model.reserved-answer-tokens",
        kind: ValueKind::Integer(256, 1 << 24),
        preset: Preset::Text("8192"),
        scope: SettingScope::User,
        vendor_variable: None,
        description: "Tokens of an answer that a plan reserves in its budget before it calls a model",
    },
];

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a setting{}", excerpt(name), nearest.map_or(String::new(), |nearest| format!("; did you mean `{nearest}`?")))]
pub struct UnknownKey {
    pub name: String,
    pub nearest: Option<&'static str>,
}

impl Key {
    pub fn setting(self) -> &'static Setting {
        &SETTINGS[self as usize]
    }

    pub fn name(self) -> &'static str {
        self.setting().name
    }

    pub fn from_name(name: &str) -> Result<Self, UnknownKey> {
        SETTINGS
            .iter()
            .find(|setting| setting.name == name)
            .map(|setting| setting.key)
            .ok_or_else(|| UnknownKey {
                name: name.to_owned(),
                nearest: nearest(name),
            })
    }
}

impl Setting {
    /// Returns the environment variable that sets it.
    pub fn variable(&self) -> String {
        let short = self.name.strip_prefix("core.").unwrap_or(self.name);
        let mut variable = String::from("CLEVERAGENTS_");
        variable.extend(short.chars().map(|character| match character {
            '.' | '-' => '_',
            other => other.to_ascii_uppercase(),
        }));
        variable
    }
}

/// Returns the setting name most similar to a misspelt one.
fn nearest(name: &str) -> Option<&'static str> {
    const LENGTH_MAXIMUM: usize = 100;
    const SIMILARITY_MINIMUM: f64 = 0.7;
    if name.len() > LENGTH_MAXIMUM {
        return None;
    }
    let likeness = |setting: &Setting| {
        let last = setting.name.rsplit('.').next().unwrap_or(setting.name);
        strsim::jaro_winkler(name, setting.name).max(strsim::jaro_winkler(name, last))
    };
    SETTINGS
        .iter()
        .map(|setting| (likeness(setting), setting.name))
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .filter(|(likeness, _)| *likeness >= SIMILARITY_MINIMUM)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_keys() {
        for (index, setting) in SETTINGS.iter().enumerate() {
            assert_eq!(setting.key as usize, index, "{}", setting.name);
            assert_eq!(Key::from_name(setting.name), Ok(setting.key));
        }
    }

    #[test]
    fn every_preset_is_a_legal_value() {
        for setting in &SETTINGS {
            if let Preset::Text(text) = setting.preset {
                assert!(setting.kind.parse(text).is_ok(), "{}", setting.name);
            }
        }
    }

    #[test]
    fn projects_cannot_set_secrets_or_urls() {
        for setting in &SETTINGS {
            if matches!(setting.kind, ValueKind::Secret | ValueKind::Url) {
                assert_eq!(setting.scope, SettingScope::User, "{}", setting.name);
            }
        }
    }

    #[test]
    fn project_settings_are_ordered() {
        let for_projects = |setting: &&Setting| setting.scope == SettingScope::Project;
        for setting in SETTINGS.iter().filter(for_projects) {
            assert!(
                matches!(setting.kind, ValueKind::Choice(_)),
                "{}",
                setting.name
            );
        }
    }

    #[test]
    fn variables_drop_core_and_replace_dots_and_hyphens() {
        let variable = |key: Key| key.setting().variable();
        assert_eq!(variable(Key::Format), "CLEVERAGENTS_FORMAT");
        assert_eq!(variable(Key::DatabaseUrl), "CLEVERAGENTS_DATABASE_URL");
        assert_eq!(
            variable(Key::OpenAiApiKey),
            "CLEVERAGENTS_PROVIDER_OPENAI_API_KEY"
        );
    }

    #[test]
    fn a_mistyped_name_finds_its_nearest() {
        for (typed, nearest) in [
            ("core.fromat", Some("core.format")),
            ("plan.concurency", Some("plan.concurrency")),
            ("concurrency", Some("plan.concurrency")),
            ("provider.openai.apikey", Some("provider.openai.api-key")),
            ("zzz", None),
        ] {
            assert_eq!(
                Key::from_name(typed).unwrap_err().nearest,
                nearest,
                "{typed}"
            );
        }
        assert_eq!(
            Key::from_name(&"k".repeat(1 << 20)).unwrap_err().nearest,
            None
        );
    }
}

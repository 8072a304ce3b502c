//! All settings of the adapters as values: providers, models and limits.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::model::ModelChoice;
use cleveragents_domain::provider::{ModelDefinition, ProviderKind, TimeoutsDefinition};
use cleveragents_domain::script::ModelScript;
use cleveragents_ports::Clock;

use crate::secret::Secret;

/// The settings of all adapters.
#[derive(Debug, Clone)]
pub struct ModelSettings {
    /// Every usable provider, in order of preference.
    pub providers: Vec<ProviderSettings>,
    /// The user's statements about models; they override the built-in ones.
    pub models: Vec<ModelDefinition>,
    /// The built-in statements about models.
    pub built_in_models: Vec<ModelDefinition>,
    /// The model preferred over all others.
    pub preferred: Option<ModelChoice>,
    pub scripts: ScriptSettings,
    pub proxies: Proxies,
    /// Needed because servers may send the time of a retry as a date.
    pub clock: Arc<dyn Clock>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ProviderSettings {
    pub name: String,
    pub kind: ProviderKind,
    /// The base URL; without it no request can be made.
    pub base_url: Option<String>,
    pub access: ProviderAccess,
    pub status: ProviderStatus,
    /// The maximum number of concurrent requests of this process.
    pub concurrency: u32,
    /// The maximum number of requests of this process per minute.
    pub requests_per_minute: Option<u32>,
    pub timeouts: Timeouts,
}

/// A provider's method of authentication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProviderAccess {
    /// Not at all.
    Free,
    Key(Secret),
    /// A required key is not set; this says where it is looked up.
    Missing {
        expected_variable: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderStatus {
    /// Its key or its URL was given.
    Configured,
    /// The user stated nothing about it. It may still be used by name.
    NotConfigured,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For establishing a connection.
    pub connect: Duration,
    /// Until the first part of an answer.
    pub first_part: Duration,
    /// Between two parts, whatever their kind.
    pub between_parts: Duration,
    /// For the whole answer.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            // Long, because a model reads the whole prompt before its first part.
            first_part: Duration::from_secs(300),
            between_parts: Duration::from_secs(120),
            total: Duration::from_secs(1800),
        }
    }
}

impl Timeouts {
    /// Returns these timeouts with the values that `stated` overrides.
    #[must_use]
    pub fn override_with(self, overrides: TimeoutsDefinition) -> Self {
        Self {
            connect: overrides.connect.unwrap_or(self.connect),
            first_part: overrides.first_part.unwrap_or(self.first_part),
            between_parts: overrides.between_parts.unwrap_or(self.between_parts),
            total: overrides.whole.unwrap_or(self.total),
        }
    }
}

/// Parses a script; the first argument is its name for messages. The error is ready to be shown.
pub type ScriptParser = dyn Fn(&str, &[u8]) -> Result<ModelScript, String> + Send + Sync;

/// The location of scripts, and their reader.
#[derive(Clone)]
pub struct ScriptSettings {
    /// The base folder of relative paths.
    pub folder: PathBuf,
    /// The maximum size of a script, in bytes.
    pub size_maximum: u64,
    pub parse: Arc<ScriptParser>,
}

impl fmt::Debug for ScriptSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptSettings")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

/// The proxies, in the format of `http_proxy`, `https_proxy` and `no_proxy`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    pub http: Option<Secret>,
    pub https: Option<Secret>,
    /// Hosts reached without a proxy, separated by commas.
    pub no_proxy: Option<String>,
}

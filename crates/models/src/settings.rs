//! Everything the adapters know: providers, models and limits, as values.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::model::ModelChoice;
use cleveragents_domain::provider::{ModelDefinition, ProviderKind, TimeoutsDefinition};
use cleveragents_engine::ports::Clock;

use crate::secret::Secret;

/// What there is to ask, and how.
#[derive(Debug, Clone)]
pub struct ModelSettings {
    /// Every provider that may be named, in order of preference.
    pub providers: Vec<ProviderSettings>,
    /// What the user states about models; it wins over what is built in.
    pub models: Vec<ModelDefinition>,
    /// The model to prefer over all others.
    pub preferred: Option<ModelChoice>,
    pub scripts: ScriptSettings,
    pub proxies: Proxies,
    /// Servers name the time at which they want to be asked again.
    pub clock: Arc<dyn Clock>,
}

/// A provider.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderSettings {
    pub name: String,
    pub kind: ProviderKind,
    /// Where it answers; without it nothing can be asked.
    pub base_url: Option<String>,
    pub access: ProviderAccess,
    pub status: ProviderStatus,
    /// How many requests of this process may be under way at once.
    pub concurrency: u32,
    /// How many requests this process may make in any minute.
    pub requests_per_minute: Option<u32>,
    pub timeouts: Timeouts,
}

/// What a provider wants to see first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProviderAccess {
    /// Nothing: it serves whoever reaches it.
    Free,
    Key(Secret),
    /// A key that nobody set; this says where it is looked for.
    Missing {
        expected_variable: String,
    },
}

/// Whether a provider counts as set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderStatus {
    /// Its key or its address was given.
    Configured,
    /// Nobody said anything about it. It may still be named.
    NotConfigured,
}

/// How long a provider is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection.
    pub connect: Duration,
    /// For the first part of an answer.
    pub first_part: Duration,
    /// From one part to the next, whatever it is.
    pub between_parts: Duration,
    /// For a whole answer.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_part: Duration::from_secs(300),
            between_parts: Duration::from_secs(120),
            total: Duration::from_secs(1800),
        }
    }
}

impl Timeouts {
    /// This, but as `stated` where it says anything.
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

/// What a variable is; nothing if it is not set.
type VariableLookup = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Where scripts are, and what `${VAR}` in them means.
#[derive(Clone)]
pub struct ScriptSettings {
    /// The folder that paths which are not absolute start from.
    pub folder: PathBuf,
    pub variables: Arc<VariableLookup>,
}

impl fmt::Debug for ScriptSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptSettings")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

/// Who passes requests on, as `http_proxy`, `https_proxy` and `no_proxy` say it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    pub http: Option<Secret>,
    pub https: Option<Secret>,
    /// Hosts that are asked without one, separated by commas.
    pub no_proxy: Option<String>,
}

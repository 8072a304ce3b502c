//! The available models, from the settings, the environment and `models.yaml`, a file of the user
//! beside the settings. Nothing is read before a command needs a model.

use std::fmt;
use std::fs::File;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_definitions::{
    DefinitionSource, SOURCE_MAXIMUM, built_in_models, read_models, read_script,
};
use cleveragents_domain::model::ModelChoice;
use cleveragents_domain::provider::{ModelDefinitions, ProviderDefinition, ProviderKind};
use cleveragents_engine::secrets::is_secret_name;
use cleveragents_models::{
    BUILT_IN, BuiltInProvider, ConfiguredModels, ModelSettings, ProviderAccess, ProviderSettings,
    ProviderStatus, Proxies, ScriptSettings, Secret, Timeouts,
};
use cleveragents_ports::models::{ModelError, ModelProviders, Models};
use cleveragents_ports::system::SystemClock;
use futures_util::future::join_all;

use super::Bootstrap;
use crate::definition_file::DefinitionFile;
use crate::environment::Environment;
use crate::failure::{CommandFailure, FailureKind, display_path};
use crate::settings::{Key, SettingSource, Settings};

const FILE: &str = "models.yaml";
/// The name of the provider whose models are scripts.
const SCRIPTED: &str = "scripted";
/// The limit of parallel requests for providers that are not built in.
const CONCURRENCY: u32 = 4;
/// Hosts that are always reached without a proxy.
const OWN_MACHINE: &str = "127.0.0.1,localhost,::1";

/// A provider and whether it is usable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelProvider {
    pub name: String,
    /// `None` if it is not usable as configured.
    pub origin: Option<ProviderOrigin>,
}

/// What makes a provider usable, with the setting, variable or file that it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProviderOrigin {
    Key(String),
    Address(String),
    /// An entry of `models.yaml` without a key.
    File(String),
    /// The setting of the default model, for the provider of scripts.
    DefaultModel,
}

impl fmt::Display for ProviderOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(source) => write!(f, "key from {source}"),
            Self::Address(source) => write!(f, "address from {source}"),
            Self::File(file) => write!(f, "from {file}"),
            Self::DefaultModel => write!(f, "model.default"),
        }
    }
}

/// Returns the settings of a built-in provider: its API key and its base URL.
fn setting_keys(provider: &str) -> (Option<Key>, Option<Key>) {
    match provider {
        "openai" => (Some(Key::OpenAiApiKey), Some(Key::OpenAiBaseUrl)),
        "anthropic" => (Some(Key::AnthropicApiKey), Some(Key::AnthropicBaseUrl)),
        "openrouter" => (Some(Key::OpenRouterApiKey), None),
        "groq" => (Some(Key::GroqApiKey), None),
        "together" => (Some(Key::TogetherApiKey), None),
        "ollama" => (None, Some(Key::OllamaBaseUrl)),
        "lmstudio" => (None, Some(Key::LmStudioBaseUrl)),
        "llamacpp" => (None, Some(Key::LlamaCppBaseUrl)),
        "vllm" => (None, Some(Key::VllmBaseUrl)),
        _ => (None, None),
    }
}

/// The answer of a provider that was asked for its models.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderReply {
    pub name: String,
    pub origin: ProviderOrigin,
    pub elapsed: Duration,
    /// The number of its models.
    pub models: Result<usize, ModelError>,
}

impl Bootstrap {
    /// Asks all usable providers for their models, in parallel. Each gets its key at its configured
    /// address only, and must answer within `limit`.
    pub fn ask_providers(&self, limit: Duration) -> Result<Vec<ProviderReply>, CommandFailure> {
        let (settings, environment) = (&self.settings, &self.environment);
        let usable = model_providers(settings, environment)?.into_iter();
        let mut usable: Vec<(String, ProviderOrigin)> = usable
            .filter_map(|it| Some((it.name, it.origin?)))
            .collect();
        if preferred_model(settings)?.is_some_and(|it| it.provider == SCRIPTED) {
            usable.push((SCRIPTED.to_owned(), ProviderOrigin::DefaultModel));
        }
        let models = configured_models(settings, environment)?;
        let asked = usable.into_iter().map(|(name, origin)| {
            let (listing, clock) = (models.list_models(&name, limit), &self.options.clock);
            async move {
                let start = clock.now();
                let models = listing.await.map(|it| it.len());
                let elapsed = clock.now().since(start);
                ProviderReply {
                    name,
                    origin,
                    elapsed,
                    models,
                }
            }
        });
        Ok(self.runtime.block_on(join_all(asked)))
    }
}

/// Returns all available models. Nothing is connected or loaded yet.
pub fn models(
    settings: &Settings,
    environment: &Environment,
) -> Result<Arc<dyn Models>, CommandFailure> {
    Ok(Arc::new(configured_models(settings, environment)?))
}

fn configured_models(
    settings: &Settings,
    environment: &Environment,
) -> Result<ConfiguredModels, CommandFailure> {
    let definitions = definitions(settings, environment)?;
    let providers = providers(settings, environment, &definitions.providers)?;
    let variables = environment.variables.clone();
    let folder = environment.working_directory.clone();
    Ok(ConfiguredModels::new(ModelSettings {
        providers: providers
            .into_iter()
            .map(|(provider, _)| provider)
            .collect(),
        models: definitions.models,
        built_in_models: built_in_models()?,
        preferred: preferred_model(settings)?,
        scripts: ScriptSettings {
            folder: folder.unwrap_or_default(),
            size_maximum: SOURCE_MAXIMUM as u64,
            parse: Arc::new(move |name, bytes| {
                let source = DefinitionSource::new(name, bytes);
                let variable = |name: &str| variables.get(name)?.to_str().map(str::to_owned);
                read_script(&source, &variable).map_err(|errors| errors.to_string())
            }),
        },
        proxies: proxies(environment),
        clock: Arc::new(SystemClock),
    }))
}

/// Returns all providers and which of them are usable.
pub fn model_providers(
    settings: &Settings,
    environment: &Environment,
) -> Result<Vec<ModelProvider>, CommandFailure> {
    preferred_model(settings)?;
    let definitions = definitions(settings, environment)?;
    let all = providers(settings, environment, &definitions.providers)?;
    let shown = |(provider, origin): (ProviderSettings, Option<ProviderOrigin>)| ModelProvider {
        name: provider.name,
        origin,
    };
    Ok(all.into_iter().map(shown).collect())
}

fn preferred_model(settings: &Settings) -> Result<Option<ModelChoice>, CommandFailure> {
    let Some(text) = settings.text(Key::ModelDefault) else {
        return Ok(None);
    };
    text.parse().map(Some).map_err(|error| {
        CommandFailure::usage("invalid value for the setting model.default")
            .kind(FailureKind::SettingValue)
            .caused_by(&error)
            .hint("agents config set model.default openai/gpt-5-mini")
    })
}

/// Reads `models.yaml`; a missing file counts as empty.
fn definitions(
    settings: &Settings,
    environment: &Environment,
) -> Result<ModelDefinitions, CommandFailure> {
    let path = file_path(settings);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(ModelDefinitions::default()),
        Err(error) => {
            let shown = display_path(&path);
            return Err(CommandFailure::usage(format!("cannot read {shown}"))
                .kind(FailureKind::Unreadable)
                .caused_by(&error));
        }
    };
    let file = DefinitionFile::from_reader(display_path(&path), file)?;
    Ok(file.parse_with(environment, read_models)?)
}

fn file_path(settings: &Settings) -> PathBuf {
    settings.locations.config_file.with_file_name(FILE)
}

/// Returns the providers in order of preference, each with the origin of its key or address if it
/// is usable.
fn providers(
    settings: &Settings,
    environment: &Environment,
    definitions: &[ProviderDefinition],
) -> Result<Vec<(ProviderSettings, Option<ProviderOrigin>)>, CommandFailure> {
    let stated = |name: &str| definitions.iter().find(|it| it.name == name);
    let built_in = BUILT_IN.iter().map(|it| {
        let base = from_settings(it, settings);
        (base, stated(it.name))
    });
    let others = definitions
        .iter()
        .filter(|it| BuiltInProvider::find(&it.name).is_none())
        .map(|it| ((unknown_provider(&it.name), None), Some(it)));
    built_in
        .chain(others)
        .map(|((base, origin), definition)| match definition {
            None => Ok((base, origin)),
            Some(definition) => with_definition(base, origin, definition, settings, environment),
        })
        .collect()
}

/// Returns the defaults for a provider that is not built in.
fn unknown_provider(name: &str) -> ProviderSettings {
    ProviderSettings {
        name: name.to_owned(),
        kind: ProviderKind::OpenAi,
        base_url: None,
        access: ProviderAccess::Free,
        status: ProviderStatus::NotConfigured,
        concurrency: CONCURRENCY,
        requests_per_minute: None,
        timeouts: Timeouts::default(),
    }
}

/// Applies the settings to a built-in provider.
fn from_settings(
    built_in: &BuiltInProvider,
    settings: &Settings,
) -> (ProviderSettings, Option<ProviderOrigin>) {
    let mut provider = built_in.settings();
    let mut origin = None;
    let (key, address) = setting_keys(built_in.name);
    let winner = |key: Option<Key>| settings.get(key?).winner();
    let address = winner(address).filter(|it| it.source != SettingSource::Default);
    if let Some(address) = address {
        // A server at a custom address may need no key.
        provider.base_url = Some(address.value.to_string());
        provider.access = ProviderAccess::Free;
        let from = address.origin.as_deref().unwrap_or("the settings");
        origin = Some(ProviderOrigin::Address(from.to_owned()));
    }
    if let Some(key) = winner(key) {
        provider.access = ProviderAccess::Key(Secret::new(key.value.to_string()));
        let from = key.origin.as_deref().unwrap_or("the settings");
        origin = Some(ProviderOrigin::Key(from.to_owned()));
    }
    if origin.is_some() {
        provider.status = ProviderStatus::Configured;
    }
    (provider, origin)
}

/// Applies the entry of `models.yaml` to a provider.
fn with_definition(
    mut provider: ProviderSettings,
    origin: Option<ProviderOrigin>,
    stated: &ProviderDefinition,
    settings: &Settings,
    environment: &Environment,
) -> Result<(ProviderSettings, Option<ProviderOrigin>), CommandFailure> {
    let file = display_path(&file_path(settings));
    provider.kind = stated.kind.unwrap_or(provider.kind);
    provider.concurrency = stated.concurrency.unwrap_or(provider.concurrency);
    provider.requests_per_minute = stated.requests_per_minute;
    provider.timeouts = provider.timeouts.override_with(stated.timeouts);
    provider.status = ProviderStatus::Configured;
    if let Some(url) = &stated.base_url {
        provider.base_url = Some(url.clone());
        if matches!(provider.access, ProviderAccess::Missing { .. }) {
            provider.access = ProviderAccess::Free;
        }
    }
    let mut found = None;
    if let Some(variable) = &stated.key_variable {
        check_variable(variable, &stated.name, &file)?;
        let value = environment.variable(variable).and_then(|it| it.to_str());
        provider.access = match value {
            Some(value) => ProviderAccess::Key(Secret::new(value.trim())),
            None => ProviderAccess::Missing {
                expected_variable: variable.clone(),
            },
        };
        found = Some(ProviderOrigin::Key(variable.clone()));
    }
    let can_be_asked =
        provider.base_url.is_some() && !matches!(provider.access, ProviderAccess::Missing { .. });
    let origin = can_be_asked.then(|| found.or(origin).unwrap_or(ProviderOrigin::File(file)));
    Ok((provider, origin))
}

/// Fails unless the variable's name marks it as secret: the value of any other variable is not
/// masked in output.
fn check_variable(variable: &str, provider: &str, file: &str) -> Result<(), CommandFailure> {
    if is_secret_name(variable) {
        Ok(())
    } else {
        Err(CommandFailure::usage(format!(
            "{file}: the variable `{variable}` cannot hold the key of {provider}"
        ))
        .kind(FailureKind::SettingValue)
        .because("only variables with TOKEN, SECRET, PASSWORD, CREDENTIAL or the word KEY in their names are kept secret")
        .hint(format!("write `key_variable: {}_KEY`", variable.to_uppercase())))
    }
}

/// Reads the proxy variables. Upper-case `HTTP_PROXY` is ignored: CGI servers set it from the
/// `Proxy` header of a request, so a remote client could choose the proxy.
fn proxies(environment: &Environment) -> Proxies {
    let text = |names: &[&str]| {
        let values = names.iter().filter_map(|name| environment.variable(name));
        values
            .filter_map(|value| value.to_str())
            .next()
            .map(str::to_owned)
    };
    let all = text(&["all_proxy", "ALL_PROXY"]);
    let of = |names: &[&str]| text(names).or_else(|| all.clone()).map(Secret::new);
    let except = text(&["no_proxy", "NO_PROXY"]);
    let except: Vec<String> = except.into_iter().chain([OWN_MACHINE.to_owned()]).collect();
    Proxies {
        http: of(&["http_proxy"]),
        https: of(&["https_proxy", "HTTPS_PROXY"]),
        no_proxy: Some(except.join(",")),
    }
}

#[cfg(test)]
mod tests;

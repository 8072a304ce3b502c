//! Checks of the configuration.

use super::HealthCheck;
use crate::bootstrap::{ModelProvider, model_providers, secrets};
use crate::commands::CommandContext;
use crate::settings::{Key, Settings};

/// Checks that the settings files can be read.
pub(super) fn files(context: &CommandContext<'_>) -> HealthCheck {
    const NAME: &str = "settings";
    let settings = match context.settings() {
        Ok(settings) => settings,
        Err(failure) => return HealthCheck::from_failure(NAME, &failure),
    };
    let locations = &settings.locations;
    let mut found: Vec<String> = Vec::new();
    if locations.config_file.is_file() {
        found.push(locations.config_file.display().to_string());
    }
    if let Some(file) = &locations.project_file {
        found.push(file.display().to_string());
    }
    let detail = if found.is_empty() {
        "no settings file; using defaults".to_owned()
    } else {
        found.join(", ")
    };
    match settings.warnings.first() {
        Some(warning) => HealthCheck::warning(NAME, warning.as_str()),
        None => HealthCheck::ok(NAME, detail),
    }
}

/// Reports the usable models and where their keys come from, never the keys.
pub(super) fn model_keys(context: &CommandContext<'_>) -> HealthCheck {
    const NAME: &str = "model_keys";
    let Ok(settings) = context.settings() else {
        return HealthCheck::warning(NAME, "unknown: the settings cannot be read");
    };
    let providers = match model_providers(settings, context.environment) {
        Ok(providers) => providers,
        Err(failure) => return HealthCheck::from_failure(NAME, &failure),
    };
    let ready: Vec<String> = providers
        .iter()
        .filter_map(|provider| Some((provider.origin.as_ref()?, &provider.name)))
        .map(|(origin, name)| format!("{name} ({origin})"))
        .collect();
    match (
        ready.is_empty(),
        check_preferred_model(settings, &providers),
    ) {
        (_, Err(preferred)) => HealthCheck::warning(
            NAME,
            format!("no provider is configured for `{preferred}`, the value of model.default"),
        )
        .with_hint("agents config get model.default --verbose"),
        (false, Ok(())) => HealthCheck::ok(NAME, ready.join(", ")),
        (true, Ok(())) => HealthCheck::warning(NAME, "no key for any model is set")
            .with_hint("agents config set provider.anthropic.api-key - < KEY-FILE"),
    }
}

/// Reports the names of the secrets that are masked in storage, logs and prompts, never the values.
pub(super) fn masked_secrets(context: &CommandContext<'_>) -> HealthCheck {
    const NAME: &str = "masked_secrets";
    let Ok(settings) = context.settings() else {
        return HealthCheck::warning(NAME, "unknown: the settings cannot be read");
    };
    match secrets(settings, context.environment) {
        Ok(secrets) if secrets.names().is_empty() => HealthCheck::ok(NAME, "none are known"),
        Ok(secrets) => HealthCheck::ok(NAME, secrets.names().join(", ")),
        Err(failure) => HealthCheck::from_failure(NAME, &failure),
    }
}

/// Checks that the default model, if set, has a usable provider.
fn check_preferred_model(settings: &Settings, providers: &[ModelProvider]) -> Result<(), String> {
    let Some(preferred) = settings.text(Key::ModelDefault) else {
        return Ok(());
    };
    let name = preferred.split('/').next().unwrap_or_default();
    let is_ready = |it: &&ModelProvider| it.name == name && it.origin.is_some();
    if name == "scripted" || providers.iter().any(|it| is_ready(&it)) {
        Ok(())
    } else {
        Err(preferred)
    }
}

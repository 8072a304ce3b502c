//! What is configured.

use super::Check;
use crate::commands::Context;
use crate::settings::{Key, Settings};
use crate::wiring::{ModelProvider, model_providers, secrets};

/// Whether the files of settings can be read.
pub(super) fn files(context: &Context<'_>) -> Check {
    const NAME: &str = "settings";
    let settings = match context.settings() {
        Ok(settings) => settings,
        Err(failure) => return Check::failed(NAME, &failure),
    };
    let locations = &settings.locations;
    let mut found: Vec<String> = Vec::new();
    if locations.config_file.is_file() {
        found.push(locations.config_file.display().to_string());
    }
    if let Some(file) = &locations.project_file {
        found.push(file.display().to_string());
    }
    let detail = match found.is_empty() {
        true => "no file of settings; the defaults hold".to_owned(),
        false => found.join(", "),
    };
    match settings.warnings.first() {
        Some(warning) => Check::warning(NAME, warning.as_str()),
        None => Check::ok(NAME, detail),
    }
}

/// Which models can be asked, and where their keys come from; never what they are.
pub(super) fn model_keys(context: &Context<'_>) -> Check {
    const NAME: &str = "model_keys";
    let Ok(settings) = context.settings() else {
        return Check::warning(NAME, "not known while the settings cannot be read");
    };
    let providers = match model_providers(settings, context.environment) {
        Ok(providers) => providers,
        Err(failure) => return Check::failed(NAME, &failure),
    };
    let ready: Vec<String> = providers
        .iter()
        .filter_map(|provider| Some((provider.origin.as_ref()?, &provider.name)))
        .map(|(origin, name)| format!("{name} ({origin})"))
        .collect();
    match (ready.is_empty(), preferred_is_there(settings, &providers)) {
        (_, Err(preferred)) => Check::warning(
            NAME,
            format!("nobody is set up for the model `{preferred}` of model.default"),
        )
        .hint("agents config get model.default --verbose"),
        (false, Ok(())) => Check::ok(NAME, ready.join(", ")),
        (true, Ok(())) => Check::warning(NAME, "no key for any model is set")
            .hint("agents config set provider.anthropic.api-key - < KEY-FILE"),
    }
}

/// Whose values are masked in storage, logs and prompts: the names, never the values.
pub(super) fn masked(context: &Context<'_>) -> Check {
    const NAME: &str = "masked_secrets";
    let Ok(settings) = context.settings() else {
        return Check::warning(NAME, "not known while the settings cannot be read");
    };
    match secrets(settings, context.environment) {
        Ok(secrets) if secrets.names().is_empty() => Check::ok(NAME, "none are known"),
        Ok(secrets) => Check::ok(NAME, secrets.names().join(", ")),
        Err(failure) => Check::failed(NAME, &failure),
    }
}

/// Whether the model that is to be used, if one is, has a provider that can be asked.
fn preferred_is_there(settings: &Settings, providers: &[ModelProvider]) -> Result<(), String> {
    let Some(preferred) = settings.text(Key::ModelDefault) else {
        return Ok(());
    };
    let name = preferred.split('/').next().unwrap_or_default();
    let is_ready = |it: &&ModelProvider| it.name == name && it.origin.is_some();
    match name == "scripted" || providers.iter().any(|it| is_ready(&it)) {
        true => Ok(()),
        false => Err(preferred),
    }
}

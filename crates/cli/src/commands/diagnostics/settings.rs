//! What is configured.

use super::Check;
use crate::commands::Context;
use crate::settings::Key;

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

/// Which keys for models are set, and where; never what they are.
pub(super) fn model_keys(context: &Context<'_>) -> Check {
    const NAME: &str = "model_keys";
    let Ok(settings) = context.settings() else {
        return Check::warning(NAME, "not known while the settings cannot be read");
    };
    let mut found = Vec::new();
    for (provider, key) in [
        ("OpenAI", Key::OpenAiApiKey),
        ("Anthropic", Key::AnthropicApiKey),
    ] {
        if let Some(winner) = settings.get(key).winner() {
            let origin = winner.origin.as_deref().unwrap_or(winner.source.name());
            found.push(format!("{provider} (from {origin})"));
        }
    }
    match found.is_empty() {
        false => Check::ok(NAME, found.join(", ")),
        true => Check::warning(NAME, "no key for any model is set")
            .hint("agents config set provider.anthropic.api-key - < KEY-FILE"),
    }
}

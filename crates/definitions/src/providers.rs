//! Reads the file of providers and models: their addresses, prices and limits.

use std::collections::HashSet;
use std::time::Duration;

use cleveragents_domain::model::ModelChoice;
use cleveragents_domain::provider::{
    ModelDefinition, ModelDefinitions, ProviderDefinition, ProviderKind, TimeoutsDefinition,
};
use serde_json::{Value, json};

use super::conversion::DefinitionConversion;
use super::error::{DefinitionErrors, Problems};
use super::price::{PriceEntry, convert_price};
use super::record::{FromYaml, record};
use super::version::parse_versioned;
use super::yaml::{DefinitionSource, DefinitionVariables};

/// Maximum timeout for a provider, in seconds.
const TIMEOUT_MAXIMUM: u64 = 24 * 60 * 60;
/// Maximum number of parallel requests, or of requests per minute, that can be configured.
const REQUESTS_MAXIMUM: u32 = 10_000;

record! {
    /// Providers and models in addition to the built-in ones, or overrides of those.
    #[schemars(title = "CleverAgents models", extend("examples" = [example()]))]
    ModelsFile refusing [
        ("prices", "write `models`, each with its `price`"),
    ] {
        /// The version of this format; 1 if left out.
        #[schemars(range(min = 1, max = 1))]
        version: Option<u64> = "version",
        /// Providers of models.
        providers: Option<Vec<ProviderEntry>> = "providers",
        /// Properties of models; these override the built-in ones.
        models: Option<Vec<ModelEntry>> = "models",
    }
}

record! {
    /// A provider. One of a built-in name changes that one.
    #[schemars(title = "Provider")]
    ProviderEntry refusing [
        ("api_key", "put the key into an environment variable and name that in `key_variable`"),
        ("key", "put the key into an environment variable and name that in `key_variable`"),
    ] {
        /// The name, as in `name/model`.
        #[schemars(length(min = 1, max = 100))]
        name: String = "name",
        /// The API it implements; `openai` if left out and nothing is built in.
        #[schemars(extend("enum" = ["openai", "anthropic"]))]
        kind: Option<String> = "kind",
        /// The base URL, such as `http://127.0.0.1:8080/v1`.
        #[schemars(length(min = 1))]
        base_url: Option<String> = "base_url",
        /// The environment variable that holds its key; none if it needs no key.
        #[schemars(length(min = 1))]
        key_variable: Option<String> = "key_variable",
        /// Maximum number of concurrent requests.
        #[schemars(range(min = 1, max = REQUESTS_MAXIMUM))]
        concurrency: Option<u32> = "concurrency",
        /// Maximum number of requests in a minute.
        #[schemars(range(min = 1, max = REQUESTS_MAXIMUM))]
        requests_per_minute: Option<u32> = "requests_per_minute",
        /// Timeouts of requests.
        timeouts: Option<TimeoutsEntry> = "timeouts",
    }
}

record! {
    /// Seconds.
    #[schemars(title = "Timeouts")]
    TimeoutsEntry refusing [] {
        /// For a connection.
        #[schemars(range(min = 1, max = TIMEOUT_MAXIMUM))]
        connect: Option<u64> = "connect",
        /// For the first part of an answer.
        #[schemars(range(min = 1, max = TIMEOUT_MAXIMUM))]
        first_part: Option<u64> = "first_part",
        /// From one part of an answer to the next.
        #[schemars(range(min = 1, max = TIMEOUT_MAXIMUM))]
        between_parts: Option<u64> = "between_parts",
        /// For a whole answer.
        #[schemars(range(min = 1, max = TIMEOUT_MAXIMUM))]
        whole: Option<u64> = "whole",
    }
}

record! {
    /// A model.
    #[schemars(title = "Model")]
    ModelEntry refusing [] {
        /// Its provider and its name there, `provider/model`.
        #[schemars(length(min = 3))]
        model: String = "model",
        /// Its prices; zero is a price too.
        price: Option<PriceEntry> = "price",
        /// Maximum number of tokens of request and answer together.
        #[schemars(range(min = 1))]
        context_tokens: Option<u64> = "context_tokens",
        /// Maximum number of tokens of an answer.
        #[schemars(range(min = 1))]
        answer_tokens: Option<u64> = "answer_tokens",
    }
}

/// Reads the providers and models in `source`, or returns every problem found.
pub fn read_models(
    source: &DefinitionSource<'_>,
    variables: DefinitionVariables<'_>,
) -> Result<ModelDefinitions, DefinitionErrors> {
    let mut problems = Problems::default();
    let definitions = read(&source.without_storing(), variables, &mut problems);
    problems.into_result(source.name, definitions)
}

fn read(
    source: &DefinitionSource<'_>,
    variables: DefinitionVariables<'_>,
    problems: &mut Problems,
) -> Option<ModelDefinitions> {
    let node = parse_versioned(source, variables, "a list of models", problems)?;
    let file = ModelsFile::read(&node, "", problems)?;
    let mut conversion = DefinitionConversion {
        node: &node,
        problems,
    };
    convert_models(&mut conversion, file)
}

fn convert_models(
    conversion: &mut DefinitionConversion<'_>,
    file: ModelsFile,
) -> Option<ModelDefinitions> {
    let providers = file.providers.unwrap_or_default();
    let models = file.models.unwrap_or_default();
    check_repeated(
        conversion,
        "providers",
        "name",
        providers.iter().map(|it| &it.name),
    );
    check_repeated(
        conversion,
        "models",
        "model",
        models.iter().map(|it| &it.model),
    );
    // Convert all of them before any is missed, so that every problem is recorded.
    let providers = conversion.convert_all("providers", providers, convert_provider);
    let models = conversion.convert_all("models", models, convert_model);
    Some(ModelDefinitions {
        providers: providers?,
        models: models?,
    })
}

fn check_repeated<'a>(
    conversion: &mut DefinitionConversion<'_>,
    list: &str,
    key: &str,
    names: impl Iterator<Item = &'a String>,
) {
    let mut seen = HashSet::new();
    for (index, name) in names.enumerate() {
        if !seen.insert(name) {
            let path = format!("{list}[{index}].{key}");
            conversion.problem(&path, format!("`{path}`: `{name}` already exists"));
        }
    }
}

fn convert_provider(
    conversion: &mut DefinitionConversion<'_>,
    path: &str,
    entry: ProviderEntry,
) -> Option<ProviderDefinition> {
    let kind = conversion.parse_optional(&format!("{path}.kind"), &entry.kind);
    if kind == Some(Some(ProviderKind::Scripted)) {
        let path = format!("{path}.kind");
        let what = "`scripted` is built in: a script is named by its path, as `scripted/PATH`";
        conversion.problem(&path, what);
    }
    if !is_provider_name(&entry.name) {
        let path = format!("{path}.name");
        let what = "a name of a provider has letters, digits, `-`, `_` and `.`";
        conversion.problem(&path, what);
    }
    if let Some(url) = &entry.base_url
        && let Some(fault) = url_problem(url)
    {
        let path = format!("{path}.base_url");
        conversion.problem(&path, format!("`{path}` {fault}"));
    }
    for (key, number) in [
        ("concurrency", entry.concurrency),
        ("requests_per_minute", entry.requests_per_minute),
    ] {
        if number.is_some_and(|number| !(1..=REQUESTS_MAXIMUM).contains(&number)) {
            let path = format!("{path}.{key}");
            let what = format!("`{path}` must be from 1 to {REQUESTS_MAXIMUM}");
            conversion.problem(&path, what);
        }
    }
    let timeouts = entry.timeouts.as_ref();
    let timeout = timeouts.map(|it| convert_timeouts(conversion, &format!("{path}.timeouts"), it));
    Some(ProviderDefinition {
        name: entry.name,
        kind: kind?,
        base_url: entry.base_url,
        key_variable: entry.key_variable,
        concurrency: entry.concurrency,
        requests_per_minute: entry.requests_per_minute,
        timeouts: timeout.unwrap_or_default(),
    })
}

fn convert_timeouts(
    conversion: &mut DefinitionConversion<'_>,
    path: &str,
    entry: &TimeoutsEntry,
) -> TimeoutsDefinition {
    let mut read = |key: &str, seconds: Option<u64>| {
        let seconds = seconds?;
        if !(1..=TIMEOUT_MAXIMUM).contains(&seconds) {
            let path = format!("{path}.{key}");
            let what = format!("`{path}` must be from 1 to {TIMEOUT_MAXIMUM} seconds");
            conversion.problem(&path, what);
        }
        Some(Duration::from_secs(seconds))
    };
    TimeoutsDefinition {
        connect: read("connect", entry.connect),
        first_part: read("first_part", entry.first_part),
        between_parts: read("between_parts", entry.between_parts),
        whole: read("whole", entry.whole),
    }
}

fn convert_model(
    conversion: &mut DefinitionConversion<'_>,
    path: &str,
    entry: ModelEntry,
) -> Option<ModelDefinition> {
    let choice: Option<ModelChoice> = conversion.parse(&format!("{path}.model"), &entry.model);
    for (key, number) in [
        ("context_tokens", entry.context_tokens),
        ("answer_tokens", entry.answer_tokens),
    ] {
        conversion.check_at_least_one(&format!("{path}.{key}"), number);
    }
    let price = match &entry.price {
        None => Some(None),
        Some(price) => convert_price(conversion, &format!("{path}.price"), price).map(Some),
    };
    Some(ModelDefinition {
        choice: choice?,
        price: price?,
        context_tokens: entry.context_tokens,
        answer_tokens: entry.answer_tokens,
    })
}

fn is_provider_name(name: &str) -> bool {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty() && name.len() <= 100 && name.chars().all(is_legal)
}

/// Returns what is wrong with a URL. It may contain a password, so the message must not quote it.
fn url_problem(url: &str) -> Option<&'static str> {
    let rest = url
        .strip_prefix("http://")
        .or_else(|| url.strip_prefix("https://"));
    match rest {
        None => Some("must begin with http:// or https://"),
        Some(rest) if rest.is_empty() || rest.starts_with('/') => Some("names no host"),
        Some(rest) if rest.contains(char::is_whitespace) => Some("has a space in it"),
        Some(rest) if rest.contains('@') => {
            Some("must not hold a user or a password: name a variable in `key_variable`")
        }
        Some(rest) if rest.contains(['?', '#']) => Some("must end with its path"),
        Some(_) => None,
    }
}

/// A small file that uses every key.
fn example() -> Value {
    json!({
        "version": 1,
        "providers": [
            {
                "name": "workstation",
                "kind": "openai",
                "base_url": "http://192.0.2.7:8000/v1",
                "key_variable": "WORKSTATION_KEY",
                "concurrency": 2,
                "requests_per_minute": 60,
                "timeouts": {"connect": 5, "first_part": 600, "between_parts": 120, "whole": 3600},
            },
        ],
        "models": [
            {
                "model": "workstation/qwen3-coder",
                "price": {"input": 0, "output": 0},
                "context_tokens": 131_072,
                "answer_tokens": 8192,
            },
        ],
    })
}

#[cfg(test)]
mod tests;

//! All available models, by provider.

use std::fmt;
use std::future::ready;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cleveragents_domain::model::{ModelChoice, ModelRequest};
use cleveragents_ports::Clock;
use cleveragents_ports::models::{
    Model, ModelError, ModelFacts, ModelListing, ModelProviders, ModelStream, Models,
};
use reqwest::{Client, RequestBuilder};

use crate::catalogue::ModelCatalogue;
use crate::endpoint::{Endpoint, WireProtocol, unavailable};
use crate::limiter::RequestLimiter;
use crate::listing::list_models;
use crate::scripted::ScriptedModel;
use crate::settings::{ModelSettings, ProviderAccess, ProviderSettings, ProviderStatus, Proxies};
use crate::tokens::Vocabulary;
use crate::wire::answer::AnswerAssembler;
use crate::wire::client;
use crate::wire::exchange::{self, RequestAttempt};
use crate::wire::failure::ErrorReporter;
use crate::wire::reader::{AnswerReader, Decoder};
use crate::wire::tool_names::ToolNames;
use crate::{anthropic, openai};

/// The name of the provider whose models are scripts.
const SCRIPTED: &str = "scripted";

/// The models of all configured providers, and scripts.
#[derive(Debug)]
pub struct ConfiguredModels {
    settings: ModelSettings,
    catalogue: ModelCatalogue,
    /// In the order of the settings.
    providers: Vec<Arc<Provider>>,
}

/// A provider with the state that its models share.
struct Provider {
    settings: ProviderSettings,
    proxies: Proxies,
    limiter: Arc<RequestLimiter>,
    clock: Arc<dyn Clock>,
    /// Built when the first model is opened, because loading certificates takes time.
    client: OnceLock<Client>,
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without client and proxies, which may contain passwords.
        f.debug_tuple("Provider").field(&self.settings).finish()
    }
}

impl ConfiguredModels {
    /// Opens, connects and loads nothing yet.
    pub fn new(settings: ModelSettings) -> Self {
        let catalogue =
            ModelCatalogue::new(settings.models.clone(), settings.built_in_models.clone());
        let provider = |it: &ProviderSettings| {
            Arc::new(Provider {
                // One for each provider, not for each model: vendors limit the account.
                limiter: Arc::new(RequestLimiter::new(it.concurrency, it.requests_per_minute)),
                settings: it.clone(),
                proxies: settings.proxies.clone(),
                clock: Arc::clone(&settings.clock),
                client: OnceLock::new(),
            })
        };
        let providers = settings.providers.iter().map(provider).collect();
        Self {
            settings,
            catalogue,
            providers,
        }
    }

    fn provider(&self, name: &str) -> Option<&Arc<Provider>> {
        self.providers.iter().find(|it| it.settings.name == name)
    }

    fn known_names(&self) -> String {
        let names = self.providers.iter().map(|it| it.settings.name.as_str());
        let names: Vec<&str> = names.chain([SCRIPTED]).collect();
        names.join(", ")
    }
}

impl Models for ConfiguredModels {
    fn open(&self, choice: &ModelChoice) -> Result<Arc<dyn Model>, ModelError> {
        if choice.provider == SCRIPTED {
            let model = ScriptedModel::open(choice, &self.settings.scripts)?;
            return Ok(Arc::new(model));
        }
        let Some(provider) = self.provider(&choice.provider) else {
            let name = &choice.provider;
            let known = self.known_names();
            return Err(unavailable(format!(
                "there is no provider `{name}`; known are {known}; \
                 another one needs a `base_url` in models.yaml"
            )));
        };
        let model = HttpModel::new(Arc::clone(provider), self.catalogue.facts(choice))?;
        Ok(Arc::new(model))
    }

    fn preferred(&self) -> Option<ModelChoice> {
        self.settings.preferred.clone()
    }

    fn configured(&self) -> Vec<ModelChoice> {
        let is_ready = |provider: &&Arc<Provider>| {
            provider.settings.status == ProviderStatus::Configured
                && !matches!(provider.settings.access, ProviderAccess::Missing { .. })
                && provider.settings.base_url.is_some()
        };
        let ready: Vec<&Arc<Provider>> = self.providers.iter().filter(is_ready).collect();
        let is_open = |choice: &&ModelChoice| {
            let name = choice.provider.as_str();
            // A preferred model was named by the user, so its provider need not be configured
            // otherwise.
            name == SCRIPTED || self.provider(name).is_some_and(Provider::is_usable)
        };
        let preferred = self.settings.preferred.iter().filter(is_open);
        let known = ready
            .iter()
            .flat_map(|provider| self.catalogue.models_of(&provider.settings.name));
        let mut choices: Vec<ModelChoice> = Vec::new();
        for choice in preferred.chain(known) {
            if !choices.contains(choice) {
                choices.push(choice.clone());
            }
        }
        choices
    }
}

impl ModelProviders for ConfiguredModels {
    fn list_models(&self, provider: &str, limit: Duration) -> ModelListing {
        if provider == SCRIPTED {
            let what = "scripted models are files, so there is no provider to ask";
            return Box::pin(ready(Err(unavailable(what.to_owned()))));
        }
        let Some(provider) = self.provider(provider) else {
            let what = format!("there is no provider `{provider}`");
            return Box::pin(ready(Err(unavailable(what))));
        };
        let endpoint = Endpoint::new(&provider.settings);
        let client = endpoint.and_then(|it| Ok((it, provider.client()?)));
        match client {
            Ok((endpoint, client)) => Box::pin(list_models(
                endpoint.list_models(&client),
                limit,
                provider.settings.timeouts,
                provider.error_reporter(),
            )),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }
}

impl Provider {
    fn is_usable(self: &Arc<Self>) -> bool {
        let has_key = !matches!(self.settings.access, ProviderAccess::Missing { .. });
        has_key && self.settings.base_url.is_some()
    }

    fn error_reporter(&self) -> ErrorReporter {
        // Servers repeat the key in their messages, and connection errors contain the proxy's
        // password.
        let key = match &self.settings.access {
            ProviderAccess::Key(key) => Some(key.clone()),
            ProviderAccess::Free | ProviderAccess::Missing { .. } => None,
        };
        let proxies = [&self.proxies.http, &self.proxies.https];
        let proxies = proxies.into_iter().flatten().cloned();
        ErrorReporter {
            provider: self.settings.name.clone(),
            secrets: key.into_iter().chain(proxies).collect(),
        }
    }

    fn client(&self) -> Result<Client, ModelError> {
        if let Some(client) = self.client.get() {
            return Ok(client.clone());
        }
        let timeouts = &self.settings.timeouts;
        let base_url = self.settings.base_url.as_deref().unwrap_or_default();
        let client =
            client::build_client(base_url, timeouts, &self.proxies, &self.error_reporter())?;
        // Two threads may build a client at the same time. The first one stays, the other is
        // dropped.
        Ok(self.client.get_or_init(|| client).clone())
    }
}

/// A model reached over HTTP.
#[derive(Debug)]
struct HttpModel {
    provider: Arc<Provider>,
    facts: ModelFacts,
    client: Client,
    endpoint: Endpoint,
    vocabulary: Vocabulary,
}

impl HttpModel {
    fn new(provider: Arc<Provider>, facts: ModelFacts) -> Result<Self, ModelError> {
        let settings = &provider.settings;
        let endpoint = Endpoint::new(settings)?;
        let vocabulary = match endpoint.protocol {
            WireProtocol::OpenAi(_) => Vocabulary::for_openai_model(&facts.choice.model),
            // Its tokenizer is not public, so only an upper bound is known.
            WireProtocol::Anthropic => Vocabulary::Unknown,
        };
        Ok(Self {
            client: provider.client()?,
            endpoint,
            vocabulary,
            facts,
            provider,
        })
    }

    fn request(&self, request: &ModelRequest) -> RequestBuilder {
        let (model, answer_tokens) = (&self.facts.choice.model, self.facts.answer_tokens);
        let builder = self.client.post(self.endpoint.answers());
        let body = match self.endpoint.protocol {
            WireProtocol::OpenAi(dialect) => {
                openai::request_body(model, request, dialect, answer_tokens)
            }
            WireProtocol::Anthropic => anthropic::request_body(model, request, answer_tokens),
        };
        self.endpoint
            .authenticate(builder)
            .header("content-type", "application/json")
            .header("accept", "text/event-stream")
            .body(body.to_string())
    }

    fn reader(&self, request: &ModelRequest) -> AnswerReader {
        let (decoder, text_tool): (Box<dyn Decoder>, _) = match self.endpoint.protocol {
            WireProtocol::OpenAi(_) => (Box::new(openai::ChatDecoder::default()), None),
            WireProtocol::Anthropic => {
                let tool = request.output_schema.as_ref();
                let tool = tool.map(|_| anthropic::TEXT_TOOL);
                (Box::new(anthropic::MessagesDecoder::default()), tool)
            }
        };
        AnswerReader::new(
            decoder,
            AnswerAssembler::new(ToolNames::from_request(request), text_tool),
        )
    }
}

impl Model for HttpModel {
    fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    fn count_tokens(&self, request: &ModelRequest) -> u64 {
        self.vocabulary.count_request(request)
    }

    // The ordinal selects the turn of a scripted model. A real one needs none.
    fn stream(&self, request: &ModelRequest, _ordinal: u64) -> ModelStream {
        exchange::stream(RequestAttempt {
            request: self.request(request),
            reader: self.reader(request),
            limiter: Arc::clone(&self.provider.limiter),
            timeouts: self.provider.settings.timeouts,
            reporter: self.provider.error_reporter(),
            clock: Arc::clone(&self.provider.clock),
        })
    }
}

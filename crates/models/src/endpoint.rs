//! The address of a provider, and how requests authenticate there.

use cleveragents_domain::provider::ProviderKind;
use cleveragents_ports::models::{ModelError, ModelErrorKind};
use reqwest::header::HeaderValue;
use reqwest::{Client, RequestBuilder, Url};

use crate::secret::Secret;
use crate::settings::{ProviderAccess, ProviderSettings};
use crate::{anthropic, openai};

/// Path of the list of models, after the root.
const OPENAI_MODELS: &str = "/models";
/// One page is enough to see that the provider answers and knows the key.
const ANTHROPIC_MODELS: &str = "/v1/models?limit=1000";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WireProtocol {
    OpenAi(openai::OpenAiDialect),
    Anthropic,
}

#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    /// The base URL without a version that the paths contain.
    root: String,
    key: Option<Secret>,
    pub(crate) protocol: WireProtocol,
}

impl Endpoint {
    /// Fails if the provider has no usable address, or needs a key that is not set.
    pub(crate) fn new(settings: &ProviderSettings) -> Result<Self, ModelError> {
        let name = &settings.name;
        let key = match &settings.access {
            ProviderAccess::Free => None,
            ProviderAccess::Key(key) => Some(key.clone()),
            ProviderAccess::Missing {
                expected_variable: wanted,
            } => {
                let what = format!("{name} needs a key and none is set; set {wanted}");
                return Err(unavailable(what));
            }
        };
        let Some(base_url) = settings.base_url.as_deref() else {
            let what = format!("{name} needs a `base_url` in models.yaml");
            return Err(unavailable(what));
        };
        if !is_http_url(base_url) {
            // The address itself is not quoted: it may contain a password.
            let what = "its address is invalid; one such as https://example.org/v1 is needed";
            return Err(unavailable(format!("{name}: {what}")));
        }
        let base_url = base_url.trim_end_matches('/');
        let (protocol, root) = match settings.kind {
            // Users write Anthropic's URL with and without the version.
            ProviderKind::Anthropic => (
                WireProtocol::Anthropic,
                base_url.trim_end_matches("/v1").to_owned(),
            ),
            ProviderKind::OpenAi | ProviderKind::Scripted => {
                let dialect = openai::OpenAiDialect::from_base_url(base_url);
                (WireProtocol::OpenAi(dialect), base_url.to_owned())
            }
        };
        Ok(Self {
            root,
            key,
            protocol,
        })
    }

    /// Returns the URL of answers.
    pub(crate) fn answers(&self) -> String {
        let path = match self.protocol {
            WireProtocol::OpenAi(_) => openai::PATH,
            WireProtocol::Anthropic => anthropic::PATH,
        };
        format!("{}{path}", self.root)
    }

    /// Creates the request for the list of models.
    pub(crate) fn list_models(&self, client: &Client) -> RequestBuilder {
        let path = match self.protocol {
            WireProtocol::OpenAi(_) => OPENAI_MODELS,
            WireProtocol::Anthropic => ANTHROPIC_MODELS,
        };
        self.authenticate(client.get(format!("{}{path}", self.root)))
    }

    /// Adds the headers with the key and the version of the API.
    pub(crate) fn authenticate(&self, builder: RequestBuilder) -> RequestBuilder {
        match (self.protocol, &self.key) {
            // `bearer_auth` marks its header as sensitive itself.
            (WireProtocol::OpenAi(_), Some(key)) => builder.bearer_auth(key.expose()),
            (WireProtocol::OpenAi(_), None) => builder,
            (WireProtocol::Anthropic, key) => {
                let (name, version) = anthropic::VERSION;
                let builder = builder.header(name, version);
                match key {
                    Some(key) => builder.header("x-api-key", sensitive_header(key)),
                    None => builder,
                }
            }
        }
    }
}

/// The URL may contain a password, so the error does not repeat it.
fn is_http_url(text: &str) -> bool {
    let is_web = |url: &Url| matches!(url.scheme(), "http" | "https");
    Url::parse(text).is_ok_and(|url| is_web(&url) && url.has_host())
}

/// Marks the header as sensitive, so that it is not logged. A key that is not a valid header value
/// is not sent, and the provider then reports that it is missing.
fn sensitive_header(key: &Secret) -> HeaderValue {
    let header = HeaderValue::from_str(key.expose());
    let mut header = header.unwrap_or(HeaderValue::from_static(""));
    header.set_sensitive(true);
    header
}

pub(crate) fn unavailable(message: String) -> ModelError {
    ModelError {
        kind: ModelErrorKind::Unavailable,
        message,
        retry_after: None,
        answer_began: false,
    }
}

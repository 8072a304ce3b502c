//! Settings for tests, and models opened with them.

use std::sync::Arc;
use std::time::Duration;

use cleveragents_definitions::built_in_models;
use cleveragents_domain::model::{ModelMessage, ModelRequest, ToolChoice};
use cleveragents_domain::provider::ProviderKind;
use cleveragents_models::{
    ConfiguredModels, ModelSettings, ProviderAccess, ProviderSettings, ProviderStatus, Proxies,
    ScriptSettings, Secret, Timeouts,
};
use cleveragents_ports::models::{Delta, Model, ModelError, Models};
use cleveragents_ports::system::SystemClock;
use futures_util::StreamExt as _;

pub(crate) const KEY: &str = "sk-hunter2-hunter2";

/// A provider named `test` with timeouts so long that only a hang exceeds them.
pub(crate) fn provider(kind: ProviderKind, url: &str) -> ProviderSettings {
    ProviderSettings {
        name: "test".to_owned(),
        kind,
        base_url: Some(url.to_owned()),
        access: ProviderAccess::Key(Secret::new(KEY)),
        status: ProviderStatus::Configured,
        concurrency: 8,
        requests_per_minute: None,
        timeouts: Timeouts {
            connect: Duration::from_secs(60),
            first_part: Duration::from_secs(600),
            between_parts: Duration::from_secs(600),
            total: Duration::from_secs(900),
        },
    }
}

pub(crate) fn settings(providers: Vec<ProviderSettings>) -> ModelSettings {
    ModelSettings {
        providers,
        models: Vec::new(),
        built_in_models: built_in_models().unwrap(),
        preferred: None,
        scripts: ScriptSettings {
            folder: "/nowhere".into(),
            size_maximum: 0,
            parse: Arc::new(|name, _| Err(format!("{name} is not expected"))),
        },
        proxies: Proxies::default(),
        clock: Arc::new(SystemClock),
    }
}

pub(crate) fn models(provider: ProviderSettings) -> ConfiguredModels {
    ConfiguredModels::new(settings(vec![provider]))
}

/// Opens a model of the provider.
pub(crate) fn open_model(provider: ProviderSettings) -> Arc<dyn Model> {
    let choice = "test/smollm2".parse().unwrap();
    models(provider).open(&choice).unwrap()
}

/// A request with one user message.
pub(crate) fn user_request(text: &str) -> ModelRequest {
    ModelRequest {
        messages: vec![ModelMessage::User {
            text: text.to_owned(),
        }],
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        options: Default::default(),
        output_schema: None,
    }
}

/// Collects all parts of the answer to a request.
pub(crate) async fn collect_response(
    model: &dyn Model,
    request: &ModelRequest,
) -> (Vec<Delta>, Option<ModelError>) {
    let (mut deltas, mut error) = (Vec::new(), None);
    let mut stream = model.stream(request, 0);
    while let Some(part) = stream.next().await {
        assert!(error.is_none(), "something follows an error");
        match part {
            Ok(delta) => deltas.push(delta),
            Err(found) => error = Some(found),
        }
    }
    (deltas, error)
}

pub(crate) fn text_of(deltas: &[Delta]) -> String {
    let mut whole = String::new();
    for delta in deltas {
        if let Delta::Text(text) = delta {
            whole.push_str(text);
        }
    }
    whole
}

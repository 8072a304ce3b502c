//! The requests that are sent, and which providers can be used.

use cleveragents_domain::model::{FinishReason, ModelChoice};
use cleveragents_domain::provider::{ModelDefinition, ProviderKind};
use cleveragents_models::{
    BUILT_IN, BuiltInProvider, ConfiguredModels, ProviderAccess, ProviderStatus, Secret,
};
use cleveragents_ports::models::{Delta, ModelErrorKind, Models as _};

use super::fixture::{
    KEY, collect_response, models, open_model, provider, settings, text_of, user_request,
};
use super::server::{TestServer, chunk, stream_end, stream_head};

fn choice(text: &str) -> ModelChoice {
    text.parse().unwrap()
}

#[tokio::test]
async fn the_key_is_sent_in_its_header() {
    let parts = vec![stream_head(), chunk("Hel"), chunk("lo"), stream_end()];
    let server = TestServer::replying(parts).await;
    let with_slash = format!("{}/", server.url);
    let model = open_model(provider(ProviderKind::OpenAi, &with_slash));
    let (deltas, error) = collect_response(&*model, &user_request("hi")).await;
    assert_eq!((text_of(&deltas).as_str(), error), ("Hello", None));
    assert_eq!(deltas.last(), Some(&Delta::Finished(FinishReason::Stop)));
    let head = server.requests()[0].head.to_lowercase();
    assert!(head.starts_with("post /v1/chat/completions "), "{head}");
    assert!(
        head.contains(&format!("authorization: bearer {KEY}")),
        "{head}"
    );
    let body: serde_json::Value = serde_json::from_str(&server.requests()[0].body).unwrap();
    assert_eq!(body["model"], "smollm2");
    assert_eq!(body["messages"][0]["content"], "hi");
}

#[tokio::test]
async fn anthropics_address_is_the_same_with_and_without_its_version() {
    let server = TestServer::replying(vec![stream_head()]).await;
    for url in [server.url.clone(), server.url.replace("/v1", "")] {
        let model = open_model(provider(ProviderKind::Anthropic, &url));
        let (_, error) = collect_response(&*model, &user_request("hi")).await;
        assert_eq!(error.unwrap().kind, ModelErrorKind::Truncated);
    }
    for seen in server.requests() {
        let head = seen.head.to_lowercase();
        assert!(head.starts_with("post /v1/messages "), "{head}");
        assert!(head.contains(&format!("x-api-key: {KEY}")), "{head}");
        assert!(head.contains("anthropic-version: 2023-06-01"), "{head}");
    }
}

#[test]
fn debug_output_hides_the_key() {
    let models = models(provider(ProviderKind::OpenAi, "http://127.0.0.1:1/v1"));
    let model = models.open(&choice("test/m")).unwrap();
    let shown = format!("{models:?} {model:?}");
    assert!(
        shown.contains("test") && !shown.contains("hunter2"),
        "{shown}"
    );
}

#[test]
fn an_unconfigured_provider_reports_what_is_missing() {
    let mut without_address = provider(ProviderKind::OpenAi, "");
    without_address.base_url = None;
    let known = BUILT_IN.iter().map(BuiltInProvider::settings);
    let all = known.chain([without_address]).collect();
    let models = ConfiguredModels::new(settings(all));
    for (name, said) in [
        (
            "openai/gpt-5",
            "openai needs a key and none is set; set OPENAI_API_KEY",
        ),
        ("test/m", "test needs a `base_url` in models.yaml"),
        (
            "gemini/x",
            "there is no provider `gemini`; known are anthropic, openai, openrouter, groq, together, \
             ollama, lmstudio, llamacpp, vllm, test, scripted; another one needs a `base_url` in models.yaml",
        ),
    ] {
        let error = models.open(&choice(name)).unwrap_err();
        assert_eq!(
            (error.kind, error.message.as_str()),
            (ModelErrorKind::Unavailable, said)
        );
    }
    let local = models.open(&choice("ollama/qwen3")).unwrap();
    assert_eq!(local.facts().choice, choice("ollama/qwen3"));
    assert_eq!(models.configured(), []);
}

#[test]
fn an_invalid_address_is_refused_before_any_request() {
    for url in ["127.0.0.1:80", "ftp://host", "http://", "https://exa mple"] {
        let models = models(provider(ProviderKind::OpenAi, url));
        let error = models.open(&choice("test/m")).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Unavailable);
        assert_eq!(
            error.message,
            "test: its address is invalid; one such as https://example.org/v1 is needed"
        );
    }
}

#[test]
fn models_are_offered_in_order_of_preference() {
    let mut all: Vec<_> = BUILT_IN.iter().map(BuiltInProvider::settings).collect();
    for it in all
        .iter_mut()
        .filter(|it| ["openai", "ollama"].contains(&it.name.as_str()))
    {
        it.status = ProviderStatus::Configured;
        if it.name == "openai" {
            it.access = ProviderAccess::Key(Secret::new(KEY));
        }
    }
    let mut settings = settings(all);
    settings.models = vec![ModelDefinition {
        choice: choice("ollama/qwen3"),
        price: None,
        context_tokens: None,
        answer_tokens: None,
    }];
    settings.preferred = Some(choice("openai/gpt-5-mini"));
    let models = ConfiguredModels::new(settings.clone());
    let offered: Vec<String> = models
        .configured()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(offered[..2], ["openai/gpt-5-mini", "openai/gpt-5"]);
    assert_eq!(offered.last().unwrap(), "ollama/qwen3");
    assert!(offered.iter().all(|it| !it.starts_with("anthropic/")));
    let preferred = offered.iter().filter(|it| *it == "openai/gpt-5-mini");
    assert_eq!(preferred.count(), 1);
    settings.preferred = Some(choice("anthropic/claude-sonnet-4-5"));
    let models = ConfiguredModels::new(settings);
    assert_eq!(models.configured()[0], choice("openai/gpt-5"));
}

//! A question outside any plan: the request and its outcome are recorded, without keys.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_definitions::{DefinitionSource, SOURCE_MAXIMUM, read_script};
use cleveragents_domain::event::payloads::{ModelAnswered, ModelAsked, ModelFailed};
use cleveragents_domain::model::{ModelChoice, ModelRequest};
use cleveragents_domain::{ErrorCategory, LlmActor, StreamId};
use cleveragents_engine::actors::{Inquiry, InquiryError, InquiryReply};
use cleveragents_engine::retry::RetryPolicy;
use cleveragents_engine::secrets::Secrets;
use cleveragents_integration_tests::samples::name;
use cleveragents_integration_tests::store_access::{events, payload_of, read};
use cleveragents_integration_tests::{Backend, TestDatabase, block_on, contract};
use cleveragents_models::{ConfiguredModels, ModelSettings, Proxies, ScriptSettings};
use cleveragents_ports::models::ModelErrorKind;
use cleveragents_ports::system::{SystemClock, SystemIds};
use cleveragents_ports::{BlobHash, StoreHandle};
use tempfile::TempDir;

contract! {
    a_question_and_its_answer_are_stored_without_keys,
    each_failed_attempt_is_on_record,
}

const KEY: &str = "sk-0123456789abcdef0123456789abcdef";

/// An inquiry that uses scripts in `folder`.
fn inquiry(store: &StoreHandle, folder: &Path) -> Inquiry {
    let settings = ModelSettings {
        providers: Vec::new(),
        models: Vec::new(),
        built_in_models: Vec::new(),
        preferred: None,
        scripts: ScriptSettings {
            folder: folder.to_owned(),
            size_maximum: SOURCE_MAXIMUM as u64,
            parse: Arc::new(|name, bytes| {
                let source = DefinitionSource::new(name, bytes);
                read_script(&source, &|_| None).map_err(|errors| errors.to_string())
            }),
        },
        proxies: Proxies::default(),
        clock: Arc::new(SystemClock),
    };
    Inquiry {
        store: store.clone(),
        models: Arc::new(ConfiguredModels::new(settings)),
        secrets: Secrets::new(vec![("API_KEY".to_owned(), KEY.to_owned())]).unwrap(),
        retry: RetryPolicy {
            max_attempts: NonZeroU32::MIN.saturating_add(1),
            initial_backoff: Duration::from_millis(1),
            ..RetryPolicy::default()
        },
        ids: Arc::new(SystemIds),
    }
}

/// Asks a model that answers with `script`.
#[expect(clippy::disallowed_methods, reason = "a test's own file")]
async fn ask_model(
    store: &StoreHandle,
    script: &str,
    prompt: &str,
) -> Result<InquiryReply, InquiryError> {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("lines.yaml"), script).unwrap();
    let llm = LlmActor {
        model: Some("scripted/lines.yaml".parse::<ModelChoice>().unwrap()),
        ..LlmActor::default()
    };
    let inquiry = inquiry(store, folder.path());
    inquiry
        .prompt_model(&name("local/talker"), &llm, prompt, &|_| {})
        .await
}

/// The blob that an event references by its hash.
async fn blob_text(store: &StoreHandle, named: &str) -> String {
    let hash: BlobHash = named.parse().unwrap();
    let bytes = read(store, move |tx| tx.blob(&hash)).await;
    String::from_utf8(bytes.unwrap()).unwrap()
}

fn a_question_and_its_answer_are_stored_without_keys(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let store = &opened.store;
        let script = format!(
            "turns:\n  - text: Yours is {KEY}.\n    usage: {{input_tokens: 7, output_tokens: 3}}\n"
        );
        let reply = ask_model(store, &script, &format!("What is {KEY}?"))
            .await
            .unwrap();
        assert_eq!(reply.text, format!("Yours is {KEY}."));
        let story = events(store, StreamId::System).await;
        let asked: ModelAsked = payload_of(&story[0]);
        let answered: ModelAnswered = payload_of(&story[1]);
        assert_eq!(asked.model_call_id, answered.model_call_id);
        assert_eq!(asked.actor, name("local/talker"));
        assert_eq!(answered.usage.output_tokens, 3);
        let (request, answer) = (
            blob_text(store, &asked.request).await,
            blob_text(store, &answered.answer).await,
        );
        assert!(request.contains("What is «secret:API_KEY»?"), "{request}");
        assert!(serde_json::from_str::<ModelRequest>(&request).is_ok());
        assert_eq!(answer, "\"Yours is «secret:API_KEY».\"");
    });
}

fn each_failed_attempt_is_on_record(backend: Backend) {
    let test_db = TestDatabase::new(backend);
    let opened = test_db.open();
    block_on(async {
        let store = &opened.store;
        let script = "turns:\n  - fault: {kind: server_error}\n  - text: Here.\n";
        let reply = ask_model(store, script, "Where?").await.unwrap();
        assert_eq!(reply.attempts, 2);
        let script = "turns:\n  - fault: {kind: server_error}\n  - fault: {kind: rate_limit}\n";
        let refused = ask_model(store, script, "Where?").await;
        let Err(InquiryError::Model(error)) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(error.kind, ModelErrorKind::RateLimit);
        let story = events(store, StreamId::System).await;
        let kinds: Vec<&str> = story.iter().map(|event| event.kind.as_str()).collect();
        let expected = "model_asked model_failed model_asked model_answered \
                        model_asked model_failed model_asked model_failed";
        assert_eq!(kinds.join(" "), expected);
        let failed: ModelFailed = payload_of(&story[7]);
        assert_eq!(failed.category, ErrorCategory::RateLimit);
    });
}

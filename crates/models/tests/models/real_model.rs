//! Tests both APIs against llama.cpp's server with a real, small model. `cargo xtask test` provides
//! both. The tests depend only on the shape of the answers, not on their text.

use cleveragents_domain::model::{
    FinishReason, ModelMessage, ModelOptions, ModelRequest, OfferedTool, RequestedToolCall,
    ToolCallPosition, ToolChoice, Usage,
};
use cleveragents_domain::provider::ProviderKind;
use cleveragents_ports::models::{Delta, ModelErrorKind};
use futures_util::StreamExt as _;
use serde_json::{Value, json};

use super::fixture::{collect_response, open_model, provider, text_of, user_request};

const PROTOCOLS: [ProviderKind; 2] = [ProviderKind::OpenAi, ProviderKind::Anthropic];

#[expect(
    clippy::disallowed_methods,
    reason = "the runner of the tests says where the server is"
)]
fn address() -> String {
    match std::env::var("CLEVERAGENTS_TEST_MODEL") {
        Ok(url) => url,
        Err(_) => panic!("no server with a model: run the tests with `cargo xtask test`"),
    }
}

fn model(language: ProviderKind) -> std::sync::Arc<dyn cleveragents_ports::models::Model> {
    open_model(provider(language, &format!("{}/v1", address())))
}

/// Makes the answer short and deterministic.
fn short_answer(mut request: ModelRequest) -> ModelRequest {
    request.options = ModelOptions {
        temperature: Some(0.0),
        top_p: None,
        max_tokens: Some(40),
    };
    request
}

fn usage_of(deltas: &[Delta]) -> Usage {
    let usage = deltas.iter().rev().find_map(|delta| match delta {
        Delta::Usage(usage) => Some(*usage),
        _ => None,
    });
    usage.unwrap()
}

/// The complete calls of an answer.
fn calls_of(deltas: &[Delta]) -> Vec<(String, String)> {
    let mut calls: Vec<(String, String)> = Vec::new();
    for delta in deltas {
        let Delta::ToolCall {
            index,
            tool,
            arguments,
        } = delta
        else {
            continue;
        };
        if calls.len() <= *index {
            calls.resize_with(index + 1, Default::default);
            assert!(tool.is_some(), "a name comes first");
        }
        calls[*index]
            .0
            .push_str(tool.as_deref().unwrap_or_default());
        calls[*index].1.push_str(arguments);
    }
    calls
}

fn tools() -> Vec<OfferedTool> {
    let tool = |name: &str, description: &str, key: &str| OfferedTool {
        name: name.parse().unwrap(),
        description: description.to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": {key: {"type": "string"}},
            "required": [key],
            "additionalProperties": false,
        }),
    };
    vec![
        tool("builtin/file-read", "Reads a file", "path"),
        tool("builtin/finish", "Ends the work", "summary"),
    ]
}

#[tokio::test]
async fn an_answer_is_streamed_and_its_usage_reported() {
    for language in PROTOCOLS {
        let model = model(language);
        let request = short_answer(user_request("Name three colours."));
        let (deltas, error) = collect_response(&*model, &request).await;
        assert_eq!(error, None, "{language}");
        let texts = deltas.iter().filter(|it| matches!(it, Delta::Text(_)));
        assert!(texts.count() > 1, "{language}: {deltas:?}");
        assert!(!text_of(&deltas).is_empty());
        assert!(matches!(deltas.last(), Some(Delta::Finished(_))));
        let usage = usage_of(&deltas);
        assert!(usage.input_tokens > 0, "{language}");
        assert!((1..=40).contains(&usage.output_tokens), "{language}");
    }
}

#[tokio::test]
async fn a_token_limit_finishes_the_answer() {
    for language in PROTOCOLS {
        let mut request = short_answer(user_request("Tell me a long story about the sea."));
        request.options.max_tokens = Some(5);
        let (deltas, error) = collect_response(&*model(language), &request).await;
        assert_eq!(error, None, "{language}");
        assert_eq!(deltas.last(), Some(&Delta::Finished(FinishReason::Length)));
    }
}

#[tokio::test]
async fn a_required_tool_is_called() {
    for language in PROTOCOLS {
        let mut request = short_answer(user_request("Read the file README.md."));
        request.tools = tools();
        request.tool_choice = ToolChoice::Required;
        let (deltas, error) = collect_response(&*model(language), &request).await;
        assert_eq!(error, None, "{language}");
        let calls = calls_of(&deltas);
        assert!(!calls.is_empty(), "{language}: {deltas:?}");
        for (name, arguments) in &calls {
            let offered = tools();
            let known = offered.iter().find(|it| it.name.to_string() == *name);
            let schema = &known.unwrap().input_schema;
            let key = schema["required"][0].as_str().unwrap();
            let arguments: Value = serde_json::from_str(arguments).unwrap();
            assert!(arguments[key].is_string(), "{language}: {arguments}");
        }
        let last = Delta::Finished(FinishReason::ToolCalls);
        assert_eq!(deltas.last(), Some(&last), "{language}");
        assert!(usage_of(&deltas).output_tokens > 0);
    }
}

/// Earlier calls and their results are sent again, with ids generated by this program.
#[tokio::test]
async fn a_conversation_with_calls_continues() {
    for language in PROTOCOLS {
        let place = ToolCallPosition { turn: 1, slot: 1 };
        let mut request = short_answer(user_request("What does README.md say?"));
        request.tools = tools();
        request.tool_choice = ToolChoice::Required;
        request.messages.extend([
            ModelMessage::Assistant {
                text: String::new(),
                tool_calls: vec![RequestedToolCall {
                    place,
                    tool: "builtin/file-read".to_owned(),
                    arguments: r#"{"path":"README.md"}"#.to_owned(),
                }],
            },
            ModelMessage::Tool {
                call: place,
                text: "Hello.".to_owned(),
            },
            ModelMessage::User {
                text: "Finish now.".to_owned(),
            },
        ]);
        let (deltas, error) = collect_response(&*model(language), &request).await;
        assert_eq!(error, None, "{language}");
        assert!(matches!(deltas.last(), Some(Delta::Finished(_))));
        assert!(usage_of(&deltas).output_tokens > 0, "{language}");
    }
}

#[tokio::test]
async fn an_answer_matches_the_output_schema() {
    let schema = json!({
        "type": "object",
        "properties": {
            "colour": {"type": "string", "enum": ["red", "green", "blue"]},
            "count": {"type": "integer", "minimum": 1, "maximum": 9},
        },
        "required": ["colour", "count"],
        "additionalProperties": false,
    });
    for language in PROTOCOLS {
        let mut request = short_answer(user_request("Choose a colour and a number."));
        request.output_schema = Some(schema.clone());
        let (deltas, error) = collect_response(&*model(language), &request).await;
        assert_eq!(error, None, "{language}");
        assert_eq!(calls_of(&deltas), [], "{language}");
        let answer: Value = serde_json::from_str(&text_of(&deltas)).unwrap();
        let colours = ["red", "green", "blue"];
        assert!(
            colours.contains(&answer["colour"].as_str().unwrap()),
            "{answer}"
        );
        assert!(
            (1..=9).contains(&answer["count"].as_i64().unwrap()),
            "{answer}"
        );
        assert_eq!(deltas.last(), Some(&Delta::Finished(FinishReason::Stop)));
    }
}

/// The server remains usable: its slot is released once it notices that the client is gone.
#[tokio::test]
async fn a_dropped_stream_cancels_the_answer() {
    for language in PROTOCOLS {
        let model = model(language);
        let mut request = user_request("Count from one to ten thousand, in words.");
        request.options.max_tokens = Some(3000);
        for _ in 0..3 {
            let mut stream = model.stream(&request, 0);
            let first = stream.next().await.unwrap();
            assert!(first.is_ok(), "{language}: {first:?}");
            drop(stream);
        }
        let (_, error) = collect_response(&*model, &short_answer(user_request("Hello"))).await;
        assert_eq!(error, None, "{language}");
    }
}

#[tokio::test]
async fn a_too_long_request_is_a_context_overflow() {
    for language in PROTOCOLS {
        let request = short_answer(user_request(&"many words ".repeat(10_000)));
        let (deltas, error) = collect_response(&*model(language), &request).await;
        let error = error.unwrap();
        assert_eq!(deltas, [], "{language}");
        assert_eq!(
            error.kind,
            ModelErrorKind::ContextOverflow,
            "{language}: {error}"
        );
    }
}

#[tokio::test]
async fn two_requests_at_once_are_both_answered() {
    for language in PROTOCOLS {
        let model = model(language);
        let (one, other) = (
            short_answer(user_request("Name three animals.")),
            short_answer(user_request("Name three plants.")),
        );
        let (one, other) = tokio::join!(
            collect_response(&*model, &one),
            collect_response(&*model, &other)
        );
        for (deltas, error) in [one, other] {
            assert_eq!(error, None, "{language}");
            assert!(!text_of(&deltas).is_empty(), "{language}");
        }
    }
}

/// Budgets are reserved by our count, so it must not be below the server's.
#[tokio::test]
async fn our_count_is_not_below_the_servers() {
    let texts = [
        "Name three colours.",
        "fn main() {\n    let numbers = vec![1, 22, 333];\n    println!(\"{numbers:?}\");\n}\n",
        "31415926535897932384626433832795028841971693993751",
        "Füße größer als Häuser; 日本語のテキスト; Привет, мир; 🙂🙃",
        "a,b;c:d/e\\f|g(h)[i]{j}<k>=l!m?n@o#p$q%r^s&t*u-v_w+x~y`z",
        "\t\t\tindented\n\n\n      more\r\n",
    ];
    for language in PROTOCOLS {
        let model = model(language);
        // The texts count the same in both APIs; the second API only needs to show that the framing
        // does too.
        let texts = &texts[..if language == ProviderKind::OpenAi {
            texts.len()
        } else {
            2
        }];
        for (index, text) in texts.iter().enumerate() {
            let mut request = short_answer(user_request(text));
            request.options.max_tokens = Some(1);
            if index == 0 {
                request.options.max_tokens = Some(40);
                request.tools = tools();
                request.tool_choice = ToolChoice::Required;
            }
            let counted = model.count_tokens(&request);
            let (deltas, error) = collect_response(&*model, &request).await;
            assert_eq!(error, None, "{language}: {text}");
            let used = usage_of(&deltas).input_tokens;
            assert!(counted >= used, "{language}: {counted} < {used}: {text}");
        }
    }
}

#[tokio::test]
async fn a_server_without_a_key_gets_no_key() {
    let mut settings = provider(ProviderKind::OpenAi, &format!("{}/v1", address()));
    settings.access = cleveragents_models::ProviderAccess::Free;
    let (deltas, error) =
        collect_response(&*open_model(settings), &short_answer(user_request("Hello"))).await;
    assert_eq!(error, None);
    assert!(matches!(deltas.last(), Some(Delta::Finished(_))));
}

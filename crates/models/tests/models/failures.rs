//! Failures of connections, and how they are reported.

use std::time::Duration;

use cleveragents_domain::provider::ProviderKind;
use cleveragents_ports::models::{ModelError, ModelErrorKind};
use tokio::net::TcpListener;

use super::fixture::{KEY, collect_response, open_model, provider, text_of, user_request};
use super::server::{ServerAction, TestServer, chunk, response, stream_end, stream_head};

async fn expect_failure(kind: ProviderKind, parts: Vec<ServerAction>) -> (String, ModelError) {
    let server = TestServer::replying(parts).await;
    let model = open_model(provider(kind, &server.url));
    let (deltas, error) = collect_response(&*model, &user_request("hi")).await;
    let error = error.unwrap();
    assert!(
        !format!("{error} {error:?}").contains("hunter2"),
        "{error:?}"
    );
    (text_of(&deltas), error)
}

/// A status, headers and a body, with the resulting error kind and message.
const STATUSES: &[(&str, &str, &str, ModelErrorKind, &str)] = &[
    (
        "429 Too Many Requests",
        "retry-after: 7\r\n",
        r#"{"error":{"message":"slow down"}}"#,
        ModelErrorKind::RateLimit,
        "test: it answered with 429 Too Many Requests: slow down",
    ),
    (
        "401 Unauthorized",
        "",
        r#"{"error":{"message":"Incorrect API key provided: sk-hunter2-hunter2."}}"#,
        ModelErrorKind::Auth,
        "test: it answered with 401 Unauthorized: Incorrect API key provided: «secret».",
    ),
    (
        "403 Forbidden",
        "",
        "",
        ModelErrorKind::Auth,
        "test: it answered with 403 Forbidden",
    ),
    (
        "400 Bad Request",
        "",
        r#"{"error":{"message":"maximum context length is 8 tokens"}}"#,
        ModelErrorKind::ContextOverflow,
        "test: it answered with 400 Bad Request: maximum context length is 8 tokens",
    ),
    (
        "400 Bad Request",
        "",
        r#"{"error":{"message":"temperature is too high"}}"#,
        ModelErrorKind::InvalidRequest,
        "test: it answered with 400 Bad Request: temperature is too high",
    ),
    (
        "404 Not Found",
        "",
        r#"{"error":{"message":"The model `smollm2` does not exist"}}"#,
        ModelErrorKind::Unavailable,
        "test: it answered with 404 Not Found: The model `smollm2` does not exist",
    ),
    (
        "302 Found",
        "location: http://127.0.0.1:1/\r\n",
        "",
        ModelErrorKind::Unavailable,
        "test: it answered with 302 Found",
    ),
    (
        "502 Bad Gateway",
        "content-type: text/html\r\n",
        "<html><title>Bad Gateway</title></html>",
        ModelErrorKind::Server,
        "test: it answered with 502 Bad Gateway: a page with the title “Bad Gateway”",
    ),
    (
        "529 Overloaded",
        "",
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
        ModelErrorKind::Server,
        "test: it answered with 529 <unknown status code>: Overloaded",
    ),
    (
        "200 OK",
        "content-type: application/json\r\n",
        r#"{"error":{"message":"no streaming here"}}"#,
        ModelErrorKind::Malformed,
        "test: it does not stream its answers: no streaming here",
    ),
];

#[tokio::test]
async fn every_status_reports_the_servers_message_without_the_key() {
    for (status, headers, body, kind, said) in STATUSES {
        for language in [ProviderKind::OpenAi, ProviderKind::Anthropic] {
            let (text, error) = expect_failure(language, response(status, headers, body)).await;
            assert_eq!((text.as_str(), error.kind), ("", *kind), "{status}");
            assert_eq!(error.message, *said);
            let retry_after = headers
                .contains("retry-after")
                .then_some(Duration::from_secs(7));
            assert_eq!(error.retry_after, retry_after);
            assert_eq!(error.answer_began, status.starts_with("200"), "{status}");
        }
    }
}

#[tokio::test]
async fn a_retry_after_date_is_parsed() {
    let headers =
        "date: Wed, 21 Oct 2015 07:28:00 GMT\r\nretry-after: Wed, 21 Oct 2015 07:28:30 GMT\r\n";
    let parts = response("503 Service Unavailable", headers, "");
    let (_, error) = expect_failure(ProviderKind::OpenAi, parts).await;
    assert_eq!(error.retry_after, Some(Duration::from_secs(30)));
}

#[tokio::test]
async fn an_error_body_is_read_up_to_a_limit() {
    let head = b"HTTP/1.1 500 Internal Server Error\r\nconnection: close\r\n\r\n".to_vec();
    let mut parts = vec![ServerAction::Send(head)];
    parts.extend(std::iter::repeat_n(
        ServerAction::Send(vec![b'x'; 1 << 20]),
        64,
    ));
    let (_, error) = expect_failure(ProviderKind::OpenAi, parts).await;
    assert_eq!(error.kind, ModelErrorKind::Server);
    assert!(error.message.len() < 700, "{}", error.message.len());
}

#[tokio::test]
async fn a_stream_that_ends_too_soon_is_truncated() {
    let parts = vec![stream_head(), chunk("Hel")];
    let (text, error) = expect_failure(ProviderKind::OpenAi, parts).await;
    assert_eq!(
        (text.as_str(), error.kind),
        ("Hel", ModelErrorKind::Truncated)
    );
    assert_eq!(
        error.message,
        "test: its stream ended before the answer did"
    );
    assert!(error.answer_began);
}

#[tokio::test]
async fn an_error_at_the_start_of_a_stream_is_no_answer() {
    let openai = "data: {\"error\":{\"message\":\"slow down\",\"code\":429}}\n\n";
    let anthropic = "event: error\ndata: {\"type\":\"error\",\"error\":\
                     {\"type\":\"overloaded_error\",\"message\":\"slow down\"}}\n\n";
    for (kind, event) in [
        (ProviderKind::OpenAi, openai),
        (ProviderKind::Anthropic, anthropic),
    ] {
        let event = || ServerAction::Send(event.as_bytes().to_vec());
        let (_, error) = expect_failure(kind, vec![stream_head(), event()]).await;
        assert!(error.message.contains("slow down"), "{error}");
        assert!(!error.answer_began, "{error}");
    }
    let event = ServerAction::Send(openai.as_bytes().to_vec());
    let parts = vec![stream_head(), chunk("Hel"), event];
    let (_, error) = expect_failure(ProviderKind::OpenAi, parts).await;
    assert!(error.answer_began, "{error}");
    let event = ServerAction::Send(b"data: {not JSON\n\n".to_vec());
    let (_, error) = expect_failure(ProviderKind::OpenAi, vec![stream_head(), event]).await;
    assert!(error.answer_began, "it answered with something: {error}");
}

#[tokio::test]
async fn a_broken_connection_is_a_network_error() {
    let (_, error) = expect_failure(ProviderKind::OpenAi, vec![ServerAction::Reset]).await;
    assert_eq!(error.kind, ModelErrorKind::Network, "{error}");
    assert!(!error.answer_began, "{error}");
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let piece = "data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\n";
    let piece = format!("{:x}\r\n{piece}\r\n", piece.len());
    let parts = vec![
        ServerAction::Send(format!("{head}{piece}").into_bytes()),
        ServerAction::Reset,
    ];
    let server = TestServer::replying(parts).await;
    let model = open_model(provider(ProviderKind::OpenAi, &server.url));
    let (_, error) = collect_response(&*model, &user_request("hi")).await;
    let error = error.unwrap();
    assert_eq!(error.kind, ModelErrorKind::Network, "{error}");
    assert!(
        error.message.starts_with("test: the connection broke ("),
        "{error}"
    );
    assert!(error.answer_began, "{error}");
}

#[tokio::test]
async fn an_unreachable_server_is_a_network_error_without_address() {
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://user:{KEY}@{}/v1", port.local_addr().unwrap());
    drop(port);
    let model = open_model(provider(ProviderKind::OpenAi, &url));
    let (_, error) = collect_response(&*model, &user_request("hi")).await;
    let error = error.unwrap();
    assert_eq!(error.kind, ModelErrorKind::Network);
    assert!(!error.answer_began);
    assert!(
        error.message.starts_with("test: it cannot be reached ("),
        "{error}"
    );
    assert!(!error.message.contains("hunter2"), "{error}");
}

#[tokio::test]
async fn a_silent_or_stalled_server_times_out() {
    let short = Duration::from_millis(300);
    for (parts, text, said) in [
        (
            vec![ServerAction::Hang],
            "",
            "test: it did not answer within 0.3 seconds",
        ),
        (
            vec![stream_head(), ServerAction::Hang],
            "",
            "test: its answer did not continue within 0.3 seconds",
        ),
        (
            vec![stream_head(), chunk("Hel"), ServerAction::Hang],
            "Hel",
            "test: its answer did not continue within 0.3 seconds",
        ),
    ] {
        let server = TestServer::replying(parts).await;
        let mut settings = provider(ProviderKind::OpenAi, &server.url);
        settings.timeouts.first_part = short;
        settings.timeouts.between_parts = short;
        let (deltas, error) = collect_response(&*open_model(settings), &user_request("hi")).await;
        let error = error.unwrap();
        assert_eq!(
            (text_of(&deltas).as_str(), error.kind),
            (text, ModelErrorKind::Timeout)
        );
        assert_eq!(error.message, said);
        assert_eq!(error.answer_began, !said.contains("did not answer"));
    }
}

#[tokio::test]
async fn an_endless_answer_times_out() {
    let mut parts = vec![stream_head()];
    parts.extend([
        ServerAction::Send(b": still here\n\n".to_vec()),
        ServerAction::Hang,
    ]);
    let server = TestServer::replying(parts).await;
    let mut settings = provider(ProviderKind::OpenAi, &server.url);
    settings.timeouts.total = Duration::from_millis(300);
    let (_, error) = collect_response(&*open_model(settings), &user_request("hi")).await;
    assert_eq!(
        error.unwrap().message,
        "test: its answer was not complete within 0.3 seconds"
    );
}

#[tokio::test]
async fn a_break_after_the_finish_is_harmless() {
    let ServerAction::Send(last) = stream_end() else {
        panic!()
    };
    let text = String::from_utf8(last)
        .unwrap()
        .replace("data: [DONE]\n\n", "");
    let parts = vec![
        stream_head(),
        chunk("Hello"),
        ServerAction::Send(text.into_bytes()),
        ServerAction::Hang,
    ];
    let server = TestServer::replying(parts).await;
    let mut settings = provider(ProviderKind::OpenAi, &server.url);
    settings.timeouts.between_parts = Duration::from_millis(300);
    let (deltas, error) = collect_response(&*open_model(settings), &user_request("hi")).await;
    assert_eq!((text_of(&deltas).as_str(), error), ("Hello", None));
}

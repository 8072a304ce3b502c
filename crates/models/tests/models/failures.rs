//! Everything that goes wrong on a connection, and how it is told.

use std::time::Duration;

use cleveragents_domain::provider::ProviderKind;
use cleveragents_engine::ports::models::{ModelError, ModelErrorKind};
use tokio::net::TcpListener;

use super::server::{Part, Server, answer, chunk, end, stream_head};
use super::set_up::{KEY, ask, open, provider, say, text_of};

async fn fail(kind: ProviderKind, parts: Vec<Part>) -> (String, ModelError) {
    let server = Server::always(parts).await;
    let model = open(provider(kind, &server.url));
    let (deltas, error) = ask(&*model, &say("hi")).await;
    let error = error.unwrap();
    assert!(
        !format!("{error} {error:?}").contains("hunter2"),
        "{error:?}"
    );
    (text_of(&deltas), error)
}

/// A status, headers, a body, and the kind and the words they become.
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
async fn every_status_is_told_with_the_servers_words_and_without_the_key() {
    for (status, headers, body, kind, said) in STATUSES {
        for language in [ProviderKind::OpenAi, ProviderKind::Anthropic] {
            let (text, error) = fail(language, answer(status, headers, body)).await;
            assert_eq!((text.as_str(), error.kind), ("", *kind), "{status}");
            assert_eq!(error.message, *said);
            let retry_after = headers
                .contains("retry-after")
                .then_some(Duration::from_secs(7));
            assert_eq!(error.retry_after, retry_after);
        }
    }
}

#[tokio::test]
async fn a_date_to_come_again_is_read() {
    let headers =
        "date: Wed, 21 Oct 2015 07:28:00 GMT\r\nretry-after: Wed, 21 Oct 2015 07:28:30 GMT\r\n";
    let parts = answer("503 Service Unavailable", headers, "");
    let (_, error) = fail(ProviderKind::OpenAi, parts).await;
    assert_eq!(error.retry_after, Some(Duration::from_secs(30)));
}

#[tokio::test]
async fn the_body_of_a_failure_is_read_only_so_far() {
    let head = b"HTTP/1.1 500 Internal Server Error\r\nconnection: close\r\n\r\n".to_vec();
    let mut parts = vec![Part::Send(head)];
    parts.extend(std::iter::repeat_n(Part::Send(vec![b'x'; 1 << 20]), 64));
    let (_, error) = fail(ProviderKind::OpenAi, parts).await;
    assert_eq!(error.kind, ModelErrorKind::Server);
    assert!(error.message.len() < 700, "{}", error.message.len());
}

#[tokio::test]
async fn a_stream_that_ends_too_soon_is_truncated() {
    let parts = vec![stream_head(), chunk("Hel")];
    let (text, error) = fail(ProviderKind::OpenAi, parts).await;
    assert_eq!(
        (text.as_str(), error.kind),
        ("Hel", ModelErrorKind::Truncated)
    );
    assert_eq!(
        error.message,
        "test: its stream ended before the answer did"
    );
}

#[tokio::test]
async fn a_connection_that_breaks_is_told_as_that() {
    let (_, error) = fail(ProviderKind::OpenAi, vec![Part::Reset]).await;
    assert_eq!(error.kind, ModelErrorKind::Network, "{error}");
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let piece = "data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\n";
    let piece = format!("{:x}\r\n{piece}\r\n", piece.len());
    let parts = vec![
        Part::Send(format!("{head}{piece}").into_bytes()),
        Part::Reset,
    ];
    let server = Server::always(parts).await;
    let model = open(provider(ProviderKind::OpenAi, &server.url));
    let (_, error) = ask(&*model, &say("hi")).await;
    let error = error.unwrap();
    assert_eq!(error.kind, ModelErrorKind::Network, "{error}");
    assert!(
        error.message.starts_with("test: the connection broke ("),
        "{error}"
    );
}

#[tokio::test]
async fn nobody_there_is_a_network_error_that_names_no_address() {
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://user:{KEY}@{}/v1", port.local_addr().unwrap());
    drop(port);
    let model = open(provider(ProviderKind::OpenAi, &url));
    let (_, error) = ask(&*model, &say("hi")).await;
    let error = error.unwrap();
    assert_eq!(error.kind, ModelErrorKind::Network);
    assert!(
        error.message.starts_with("test: it cannot be reached ("),
        "{error}"
    );
    assert!(!error.message.contains("hunter2"), "{error}");
}

#[tokio::test]
async fn who_never_answers_or_stops_in_the_middle_is_late() {
    let short = Duration::from_millis(300);
    for (parts, text, said) in [
        (
            vec![Part::Hang],
            "",
            "test: it did not answer within 0.3 seconds",
        ),
        (
            vec![stream_head(), Part::Hang],
            "",
            "test: its answer did not go on within 0.3 seconds",
        ),
        (
            vec![stream_head(), chunk("Hel"), Part::Hang],
            "Hel",
            "test: its answer did not go on within 0.3 seconds",
        ),
    ] {
        let server = Server::always(parts).await;
        let mut settings = provider(ProviderKind::OpenAi, &server.url);
        settings.patience.first_part = short;
        settings.patience.between_parts = short;
        let (deltas, error) = ask(&*open(settings), &say("hi")).await;
        let error = error.unwrap();
        assert_eq!(
            (text_of(&deltas).as_str(), error.kind),
            (text, ModelErrorKind::Timeout)
        );
        assert_eq!(error.message, said);
    }
}

#[tokio::test]
async fn an_answer_that_never_ends_is_late_in_the_end() {
    let mut parts = vec![stream_head()];
    parts.extend([Part::Send(b": still here\n\n".to_vec()), Part::Hang]);
    let server = Server::always(parts).await;
    let mut settings = provider(ProviderKind::OpenAi, &server.url);
    settings.patience.whole = Duration::from_millis(300);
    let (_, error) = ask(&*open(settings), &say("hi")).await;
    assert_eq!(
        error.unwrap().message,
        "test: its answer was not whole within 0.3 seconds"
    );
}

#[tokio::test]
async fn what_breaks_after_the_model_finished_breaks_nothing() {
    let Part::Send(last) = end() else { panic!() };
    let text = String::from_utf8(last)
        .unwrap()
        .replace("data: [DONE]\n\n", "");
    let parts = vec![
        stream_head(),
        chunk("Hello"),
        Part::Send(text.into_bytes()),
        Part::Hang,
    ];
    let server = Server::always(parts).await;
    let mut settings = provider(ProviderKind::OpenAi, &server.url);
    settings.patience.between_parts = Duration::from_millis(300);
    let (deltas, error) = ask(&*open(settings), &say("hi")).await;
    assert_eq!((text_of(&deltas).as_str(), error), ("Hello", None));
}

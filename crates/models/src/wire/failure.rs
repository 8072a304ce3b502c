//! Failures of providers: their kind and the provider's message, without the API key.

use std::time::Duration;

use cleveragents_ports::models::{ModelError, ModelErrorKind};
use serde_json::Value;

use crate::secret::Secret;

/// The maximum length of a provider's message, in characters.
const MESSAGE_MAXIMUM: usize = 500;

/// A failure that is not yet attributed to a provider.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ModelFault {
    pub(crate) kind: ModelErrorKind,
    pub(crate) message: String,
    pub(crate) retry_after: Option<Duration>,
    /// Whether the provider had begun to answer.
    pub(crate) answer_began: bool,
}

impl ModelFault {
    /// A failure before the provider began to answer.
    pub(crate) fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            retry_after: None,
            answer_began: false,
        }
    }
}

/// The provider that messages name, and the secrets that they must not contain.
#[derive(Debug, Clone)]
pub(crate) struct ErrorReporter {
    pub(crate) provider: String,
    pub(crate) secrets: Vec<Secret>,
}

impl ErrorReporter {
    pub(crate) fn error(&self, fault: ModelFault) -> ModelError {
        let message = format!("{}: {}", self.provider, fault.message);
        let clean = |text: String, secret: &Secret| secret.redact(&text);
        ModelError {
            kind: fault.kind,
            // Truncated only after redaction: half a key at the end would not be recognised.
            message: truncate_message(&self.secrets.iter().fold(message, clean)),
            retry_after: fault.retry_after,
            answer_began: fault.answer_began,
        }
    }
}

/// A provider's error report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProviderError {
    /// The message, on one line.
    pub(crate) message: String,
    /// The provider's error codes and types, in lower case.
    pub(crate) names: String,
}

impl ProviderError {
    /// Parses the body of an unsuccessful response.
    pub(crate) fn from_body(body: &[u8]) -> Self {
        // Lossy: an error report must not fail because of its encoding.
        let text = String::from_utf8_lossy(body);
        match serde_json::from_str::<Value>(&text) {
            Ok(value) => Self::from_json(value.get("error").unwrap_or(&value)),
            Err(_) => Self {
                message: summarize_text(&text),
                names: String::new(),
            },
        }
    }

    /// Parses an error object of any shape.
    pub(crate) fn from_json(error: &Value) -> Self {
        let text = |key: &str| match error.get(key) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Number(number)) => Some(number.to_string()),
            _ => None,
        };
        let message = match error {
            Value::String(message) => Some(message.clone()),
            _ => text("message").or_else(|| text("detail")),
        };
        let names = ["type", "code", "status"]
            .iter()
            .filter_map(|key| text(key));
        Self {
            message: to_single_line(&message.unwrap_or_else(|| error.to_string())),
            names: names.collect::<Vec<_>>().join(" ").to_lowercase(),
        }
    }

    /// Classifies the failure; `status` is the HTTP status, if there was one.
    pub(crate) fn classify(&self, status: Option<u16>) -> ModelErrorKind {
        let says = |words: &[&str]| {
            let message = self.message.to_lowercase();
            let said = |word: &&str| self.names.contains(*word) || message.contains(*word);
            words.iter().any(said)
        };
        // Messages about rate limits mention tokens too, and compacting the conversation would not
        // help.
        if says(&OVERFLOW_PHRASES) && status.is_none_or(|status| status != 429) {
            return ModelErrorKind::ContextOverflow;
        }
        // Sent with status 429. A retry would wait for money.
        if says(&["insufficient_quota", "billing"]) {
            return ModelErrorKind::Auth;
        }
        match status {
            Some(401..=403) => ModelErrorKind::Auth,
            // Redirects are never followed: the key must not reach another server.
            Some(300..=399 | 404 | 405) => ModelErrorKind::Unavailable,
            Some(408) => ModelErrorKind::Timeout,
            Some(413) => ModelErrorKind::ContextOverflow,
            Some(429) => ModelErrorKind::RateLimit,
            Some(400..=499) => ModelErrorKind::InvalidRequest,
            // 5xx and unknown statuses count as temporary, so they are retried.
            Some(_) => ModelErrorKind::Server,
            None if says(&["rate_limit", "429"]) => ModelErrorKind::RateLimit,
            None if says(&["timeout"]) => ModelErrorKind::Timeout,
            None if says(&["authentication", "permission"]) => ModelErrorKind::Auth,
            None if says(&["invalid_request"]) => ModelErrorKind::InvalidRequest,
            None if says(&["not_found"]) => ModelErrorKind::Unavailable,
            None => ModelErrorKind::Server,
        }
    }
}

/// Phrases by which vendors and servers report that request and answer exceed the model's context.
const OVERFLOW_PHRASES: [&str; 10] = [
    "context_length_exceeded",
    "exceed_context_size",
    "request_too_large",
    "context length",
    "context size",
    "context window",
    "prompt is too long",
    "input is too long",
    "input length and `max_tokens` exceed",
    "too many tokens",
];

/// Summarises a text that is not JSON; for an HTML page, returns its title.
fn summarize_text(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    if !lower.trim_start().starts_with('<') {
        return to_single_line(text);
    }
    let title = lower.find("<title>").map(|at| at + "<title>".len());
    let title = title.and_then(|start| {
        let length = lower[start..].find("</title>")?;
        Some(to_single_line(&text[start..start + length]))
    });
    match title.filter(|title| !title.is_empty()) {
        Some(title) => format!("a page with the title “{title}”"),
        None => "a page instead of an answer".to_owned(),
    }
}

/// Removes control characters.
fn to_single_line(text: &str) -> String {
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    words.join(" ")
}

/// Returns the beginning of a text, on one line and without control characters.
pub(crate) fn truncate_message(text: &str) -> String {
    let line = to_single_line(text);
    let mut beginning: String = line.chars().take(MESSAGE_MAXIMUM).collect();
    if beginning.len() < line.len() {
        beginning.push('…');
    }
    beginning
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classify_body(status: u16, body: &str) -> ModelErrorKind {
        ProviderError::from_body(body.as_bytes()).classify(Some(status))
    }

    #[test]
    fn every_status_maps_to_an_error_kind() {
        use ModelErrorKind::*;
        for (status, expected) in [
            (301, Unavailable),
            (400, InvalidRequest),
            (401, Auth),
            (402, Auth),
            (403, Auth),
            (404, Unavailable),
            (408, Timeout),
            (413, ContextOverflow),
            (418, InvalidRequest),
            (422, InvalidRequest),
            (429, RateLimit),
            (500, Server),
            (503, Server),
            (529, Server),
        ] {
            assert_eq!(classify_body(status, "{}"), expected, "{status}");
        }
    }

    #[test]
    fn a_context_overflow_is_recognized_by_its_message() {
        for (status, body) in [
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 128000 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error"}}"#,
            ),
            (500, r#"{"error":"the context size has been exceeded"}"#),
        ] {
            assert_eq!(
                classify_body(status, body),
                ModelErrorKind::ContextOverflow,
                "{body}"
            );
        }
        let limited = r#"{"error":{"message":"too many tokens per minute"}}"#;
        assert_eq!(classify_body(429, limited), ModelErrorKind::RateLimit);
        let quota = r#"{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}"#;
        assert_eq!(classify_body(429, quota), ModelErrorKind::Auth);
    }

    #[test]
    fn error_bodies_of_any_shape_are_summarized() {
        for (body, said) in [
            (r#"{"error":{"message":"No such\nmodel"}}"#, "No such model"),
            (r#"{"error":"no"}"#, "no"),
            (r#"{"detail":"Not Found"}"#, "Not Found"),
            (r#"{"object":"error","message":"bad"}"#, "bad"),
            ("upstream \u{1b}[31mdown", "upstream [31mdown"),
            (
                "<html><head><title>502 Bad\nGateway</title>",
                "a page with the title “502 Bad Gateway”",
            ),
            (" <!DOCTYPE html><p>x", "a page instead of an answer"),
            ("", ""),
        ] {
            assert_eq!(ProviderError::from_body(body.as_bytes()).message, said);
        }
    }

    #[test]
    fn error_messages_are_short_and_hide_keys() {
        let key = "sk-hunter2-hunter2";
        let reporter = ErrorReporter {
            provider: "openai".to_owned(),
            secrets: vec![Secret::new(key)],
        };
        for before in MESSAGE_MAXIMUM - 40..MESSAGE_MAXIMUM {
            let body = format!("{}{key} {}", "x".repeat(before), "y".repeat(1000));
            let complaint = ProviderError::from_body(body.as_bytes());
            let error = reporter.error(ModelFault::new(ModelErrorKind::Auth, complaint.message));
            assert_eq!(error.message.chars().count(), MESSAGE_MAXIMUM + 1);
            assert!(!error.message.contains("sk-"), "{}", error.message);
        }
    }

    #[test]
    fn a_repeated_key_is_redacted() {
        let reporter = ErrorReporter {
            provider: "openai".to_owned(),
            secrets: vec![Secret::new("sk-hunter2")],
        };
        let fault = ModelFault::new(ModelErrorKind::Auth, "wrong key: sk-hunter2");
        assert_eq!(reporter.error(fault).message, "openai: wrong key: «secret»");
    }
}

//! The Anthropic messages API.

mod request;
mod stream;

pub(crate) use request::{TEXT_TOOL, request_body};
pub(crate) use stream::MessagesDecoder;

/// The path after the base URL.
pub(crate) const PATH: &str = "/v1/messages";
/// The API version, sent as a header.
pub(crate) const VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

#[cfg(test)]
mod tests;

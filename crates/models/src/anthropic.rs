//! Messages as Anthropic has them.

mod request;
mod stream;

pub(crate) use request::{TEXT_TOOL, request_body};
pub(crate) use stream::MessagesDecoder;

/// What is asked for, behind the base address.
pub(crate) const PATH: &str = "/v1/messages";
/// The version of the language, which is a header.
pub(crate) const VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

#[cfg(test)]
mod tests;

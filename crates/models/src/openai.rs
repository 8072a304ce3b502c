//! The OpenAI chat completions API, which most servers implement.

mod request;
mod stream;

pub(crate) use request::{OpenAiDialect, call_id, request_body};
pub(crate) use stream::ChatDecoder;

/// The path after the base URL.
pub(crate) const PATH: &str = "/chat/completions";

#[cfg(test)]
mod tests;

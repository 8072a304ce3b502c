//! Chat completions as OpenAI has them and most servers speak them.

mod request;
mod stream;

pub(crate) use request::{OpenAiDialect, call_id, request_body};
pub(crate) use stream::ChatDecoder;

/// What is asked for, behind the base address.
pub(crate) const PATH: &str = "/chat/completions";

#[cfg(test)]
mod tests;

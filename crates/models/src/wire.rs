//! Shared by both APIs: the event stream, the assembly of an answer, tool names, and failures.

pub(crate) mod answer;
pub(crate) mod arguments;
pub(crate) mod client;
pub(crate) mod exchange;
pub(crate) mod failure;
pub(crate) mod reader;
pub(crate) mod retry_after;
pub(crate) mod sse;
pub(crate) mod tool_names;

#[cfg(test)]
pub(crate) mod stream_checks;

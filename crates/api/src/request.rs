//! The trait of requests.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// One use case. Its fields are everything that the handler needs to know of the caller.
pub trait Request: Serialize + DeserializeOwned + JsonSchema + Send + 'static {
    type Answer: Serialize + DeserializeOwned + JsonSchema + Send + 'static;

    /// Noun and verb, for example `action.show`; one word if there is no noun, such as `info`.
    const NAME: &'static str;
    const KIND: RequestKind;

    /// Returns the effect of this request, which may be less than [`Self::KIND`]: a dry run only
    /// reads.
    fn kind(&self) -> RequestKind {
        Self::KIND
    }
}

/// The effect of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// Changes nothing, and never waits for a lock of another process.
    Read,
    /// Changes stored data. An apply that a dead process left unfinished is finished first.
    Write,
    /// Records what the user wants of a plan, and what they approve. Running the plan comes after.
    Work,
}

//! Why the hash chain of a stream does not verify.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::StreamId;

/// The first fault found in a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum ChainFault {
    #[error("event {expected} of {stream} is missing (found {found} in its place)")]
    Gap {
        stream: StreamId,
        expected: i64,
        found: i64,
    },
    #[error("event {stream_seq} of {stream} does not follow from the one before it")]
    Unlinked { stream: StreamId, stream_seq: i64 },
    #[error("event {stream_seq} of {stream} was altered: its hash does not agree")]
    Altered { stream: StreamId, stream_seq: i64 },
    #[error("the payload of event {stream_seq} of {stream} was altered")]
    PayloadAltered { stream: StreamId, stream_seq: i64 },
    #[error("the payload of event {stream_seq} of {stream} is gone and no purge is recorded")]
    PayloadMissing { stream: StreamId, stream_seq: i64 },
    #[error("{stream} ends at event {found}, its head is at {expected}")]
    HeadDisagrees {
        stream: StreamId,
        expected: i64,
        found: i64,
    },
    #[error("{stream} verifies, but its head hash is {found}, not {expected}")]
    NotExpected {
        stream: StreamId,
        expected: String,
        found: String,
    },
}

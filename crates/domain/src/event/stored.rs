//! Events before and after they are stored.

use serde::Serialize;
use serde_json::value::RawValue;

use super::kinds::{EventKind, EventPayload};
use super::stream::StreamId;
use crate::time::Timestamp;

/// An event to be appended. The store assigns its position, time and hashes.
#[derive(Debug, Clone)]
pub struct NewEvent {
    kind: EventKind,
    actor: String,
    payload: Box<RawValue>,
}

impl NewEvent {
    /// Builds an event by `actor`. Fails if the payload has no JSON form.
    pub fn of<P: EventPayload>(
        actor: impl Into<String>,
        payload: &P,
    ) -> Result<Self, serde_json::Error> {
        Ok(Self {
            kind: P::KIND,
            actor: actor.into(),
            payload: serde_json::value::to_raw_value(payload)?,
        })
    }

    pub const fn kind(&self) -> &EventKind {
        &self.kind
    }

    pub fn actor(&self) -> &str {
        &self.actor
    }

    /// The payload as JSON text, in the current version of its kind.
    pub fn payload(&self) -> &str {
        self.payload.get()
    }
}

/// An event stored in the journal.
#[derive(Debug, Clone, Serialize)]
pub struct Event {
    /// Increases over all streams; may have gaps.
    pub seq: i64,
    pub stream: StreamId,
    /// Position in the stream: 1, 2, 3 … without gaps. Shown as `plan_seq`.
    #[serde(rename = "plan_seq")]
    pub stream_seq: i64,
    pub kind: EventKind,
    /// The version of the kind's payload.
    pub v: i64,
    pub at: Timestamp,
    pub actor: String,
    /// The stored text, in version `v`. `None` once purged. [`Event::read`] and
    /// [`Event::read_body`] convert it.
    pub payload: Option<Box<RawValue>>,
    pub payload_hash: String,
    pub prev_hash: String,
    pub hash: String,
}

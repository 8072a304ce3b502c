//! Reads the payloads of stored events, converted to the current version.

use serde_json::Value;

use super::kinds::{EventBody, EventKind, EventPayload};
use super::stored::Event;
use crate::upcast::{UpcastError, UpcastOutcome, upcast};

/// The journal's data of an event.
#[derive(Debug, Clone, PartialEq)]
pub enum PayloadOutcome<P> {
    /// The payload, in the current version.
    Current(P),
    /// A payload of a newer program. `known` holds the fields that this program knows, if they
    /// still have their old form.
    Newer { v: i64, known: Option<P> },
    /// The payload was erased on request.
    Purged,
    /// This program does not know the kind.
    UnknownKind,
}

/// Error of a payload that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    #[error("the event is {found}, not {expected}")]
    OtherKind {
        expected: EventKind,
        found: EventKind,
    },
    #[error(transparent)]
    Version(#[from] UpcastError),
    #[error("the payload of an event {kind} is malformed: {source}")]
    Malformed {
        kind: EventKind,
        source: serde_json::Error,
    },
}

impl<P> PayloadOutcome<P> {
    /// Returns the fields that this program knows, if there are any.
    pub fn known(self) -> Option<P> {
        match self {
            Self::Current(payload) => Some(payload),
            Self::Newer { known, .. } => known,
            Self::Purged | Self::UnknownKind => None,
        }
    }

    pub fn map<Q>(self, change: impl FnOnce(P) -> Q) -> PayloadOutcome<Q> {
        match self {
            Self::Current(payload) => PayloadOutcome::Current(change(payload)),
            Self::Newer { v, known } => PayloadOutcome::Newer {
                v,
                known: known.map(change),
            },
            Self::Purged => PayloadOutcome::Purged,
            Self::UnknownKind => PayloadOutcome::UnknownKind,
        }
    }
}

impl Event {
    /// Returns the payload of an event whose kind the caller has checked. Fails if the event is of
    /// another kind.
    pub fn read<P: EventPayload>(&self) -> Result<PayloadOutcome<P>, PayloadError> {
        if self.kind != P::KIND {
            return Err(PayloadError::OtherKind {
                expected: P::KIND,
                found: self.kind.clone(),
            });
        }
        let Some(text) = &self.payload else {
            return Ok(PayloadOutcome::Purged);
        };
        let malformed = |source| PayloadError::Malformed {
            kind: P::KIND,
            source,
        };
        let value: Value = serde_json::from_str(text.get()).map_err(malformed)?;
        Ok(match upcast(&self.kind, self.v, value)? {
            UpcastOutcome::Current(value) => {
                PayloadOutcome::Current(serde_json::from_value(value).map_err(malformed)?)
            }
            UpcastOutcome::Newer { v, payload } => PayloadOutcome::Newer {
                v,
                known: serde_json::from_value(payload).ok(),
            },
        })
    }

    /// Returns the payload of an event of any kind.
    pub fn read_body(&self) -> Result<PayloadOutcome<EventBody>, PayloadError> {
        EventBody::read(self)
    }

    /// Returns the fields of the payload that this program knows. `None` if the payload was purged,
    /// cannot be read, or is of an unknown kind; for readers to whom these are the same.
    pub fn known_body(&self) -> Option<EventBody> {
        self.read_body().ok()?.known()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use serde_json::value::to_raw_value;

    use super::*;
    use crate::event::payloads::{PayloadPurged, ToolRefused};
    use crate::event::stream::StreamId;
    use crate::time::Timestamp;

    fn event(kind: EventKind, v: i64, payload: Option<Value>) -> Event {
        Event {
            seq: 1,
            stream: StreamId::System,
            stream_seq: 1,
            kind,
            v,
            at: Timestamp::default(),
            actor: "eva".to_owned(),
            payload: payload.map(|it| to_raw_value(&it).unwrap()),
            payload_hash: String::new(),
            prev_hash: String::new(),
            hash: String::new(),
        }
    }

    fn purge(v: i64, payload: Option<Value>) -> Event {
        event(EventKind::PayloadPurged, v, payload)
    }

    fn expected() -> PayloadPurged {
        PayloadPurged {
            places: vec![3],
            reason: "personal".to_owned(),
        }
    }

    #[test]
    fn the_current_version_is_read() {
        let stored = purge(1, Some(json!({"places": [3], "reason": "personal"})));
        let read: PayloadOutcome<PayloadPurged> = stored.read().unwrap();
        assert_eq!(read, PayloadOutcome::Current(expected()));
        let body = EventBody::PayloadPurged(Box::new(expected()));
        assert_eq!(stored.known_body(), Some(body.clone()));
        assert_eq!(body.kind(), EventKind::PayloadPurged);
    }

    #[test]
    fn known_fields_of_a_newer_version_are_read() {
        let newer = json!({"places": [3], "reason": "personal", "by": "eva"});
        let known = Some(expected());
        assert_eq!(
            purge(2, Some(newer)).read().unwrap(),
            PayloadOutcome::Newer { v: 2, known }
        );
        let changed: PayloadOutcome<PayloadPurged> =
            purge(2, Some(json!({"places": "3"}))).read().unwrap();
        assert_eq!(changed, PayloadOutcome::Newer { v: 2, known: None });
        assert_eq!(changed.known(), None);
    }

    #[test]
    fn erased_and_unknown_payloads_are_different_outcomes() {
        let purged = purge(1, None).read_body().unwrap();
        assert_eq!(purged, PayloadOutcome::Purged);
        let unknown = event(EventKind::from("tea_brewed"), 1, Some(json!({})));
        let unknown = unknown.read_body().unwrap();
        assert_eq!(unknown, PayloadOutcome::UnknownKind);
        assert_eq!((purged.known(), unknown.known()), (None, None));
    }

    #[test]
    fn other_kinds_versions_and_shapes_are_errors() {
        let read = |event: Event| event.read::<PayloadPurged>().unwrap_err().to_string();
        let other = event(EventKind::ToolRefused, 1, Some(json!({})));
        assert_eq!(
            read(other.clone()),
            "the event is tool_refused, not payload_purged"
        );
        assert!(other.read::<ToolRefused>().is_err());
        assert!(other.known_body().is_none());
        assert_eq!(
            read(purge(0, Some(json!({})))),
            "the event payload_purged has version 0, but versions begin at 1"
        );
        let malformed = read(purge(1, Some(json!({"places": 3}))));
        assert!(malformed.starts_with("the payload of an event payload_purged is malformed"));
    }
}

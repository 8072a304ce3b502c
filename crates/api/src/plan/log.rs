//! `plan.log`

use cleveragents_domain::event::PayloadError;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{Event, EventBody, EventKind, PayloadOutcome, StreamId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::to_raw_value;

use super::PlanReference;
use crate::request::{Request, RequestKind};

/// Returns the journal of a plan: its events, in order. Of a deleted plan, only the whole id names
/// the journal.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanLog {
    pub plan: PlanReference,
    /// The first event to return (its `plan_seq`); the first of all if it is not given.
    #[serde(default)]
    pub from_seq: Option<i64>,
    #[serde(default)]
    pub limit: Option<u64>,
}

impl Request for PlanLog {
    type Answer = JournalPage;
    const NAME: &'static str = "plan.log";
    const KIND: RequestKind = RequestKind::Read;
}

/// Events of a plan.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct JournalPage {
    pub plan_id: PlanId,
    pub events: Vec<JournalEvent>,
    pub head: JournalHead,
}

/// The end of a journal.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct JournalHead {
    /// The number of its newest event.
    pub plan_seq: i64,
    pub hash: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JournalEvent {
    /// Increases over all plans; may have gaps.
    pub seq: i64,
    /// Position in the plan's journal: 1, 2, 3 … without gaps.
    pub plan_seq: i64,
    pub kind: String,
    /// The version of the kind's payload.
    pub v: i64,
    pub at: Timestamp,
    pub actor: String,
    /// `None` once it was purged.
    pub payload: Option<Value>,
    pub hash: String,
}

impl JournalEvent {
    /// Returns the payload as the type of its kind, in the current version.
    pub fn read_body(&self) -> Result<PayloadOutcome<EventBody>, PayloadError> {
        let payload = self.payload.as_ref();
        Event {
            seq: self.seq,
            stream: StreamId::System,
            stream_seq: self.plan_seq,
            kind: EventKind::from(self.kind.as_str()),
            v: self.v,
            at: self.at,
            actor: self.actor.clone(),
            payload: payload.and_then(|value| to_raw_value(value).ok()),
            payload_hash: String::new(),
            prev_hash: String::new(),
            hash: self.hash.clone(),
        }
        .read_body()
    }

    /// Returns the fields of the payload that this program knows. `None` if the payload was purged,
    /// cannot be read, or is of an unknown kind; for readers to whom these are the same.
    pub fn known_body(&self) -> Option<EventBody> {
        self.read_body().ok()?.known()
    }
}

impl From<&Event> for JournalEvent {
    fn from(event: &Event) -> Self {
        let payload = event.payload.as_ref();
        Self {
            seq: event.seq,
            plan_seq: event.stream_seq,
            kind: event.kind.as_str().to_owned(),
            v: event.v,
            at: event.at,
            actor: event.actor.clone(),
            payload: payload.and_then(|text| serde_json::from_str(text.get()).ok()),
            hash: event.hash.clone(),
        }
    }
}

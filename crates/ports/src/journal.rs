//! The journal: append-only event streams, numbered without gaps and chained by hashes.

use cleveragents_domain::{Event, EventKind, NewEvent, StreamId, Timestamp};
use serde::{Deserialize, Serialize};

use super::Result;

/// The newest position of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamHead {
    /// Sequence number of the newest event; 0 in an empty stream.
    pub stream_seq: i64,
    /// Hash of the newest event; [`genesis_hash`] in an empty stream.
    pub hash: String,
}

/// A position between events of all streams, in the order in which commits became final.
///
/// On PostgreSQL a smaller `seq` may commit after a larger one, so `seq` alone is not a cursor: the
/// id of the writing transaction comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Cursor {
    pub transaction: i64,
    pub seq: i64,
}

pub trait Journal {
    /// Appends `events` to `stream` and returns its new head. Appends to one stream are serialised;
    /// they never conflict.
    fn append(&mut self, stream: StreamId, events: &[NewEvent]) -> Result<StreamHead>;

    /// Returns the head of `stream`. An unknown stream is empty.
    fn head(&mut self, stream: StreamId) -> Result<StreamHead>;

    /// Returns up to `limit` events of `stream` with sequence numbers after `after`, in order.
    fn events(&mut self, stream: StreamId, after: i64, limit: u32) -> Result<Vec<Event>>;

    /// Returns up to `limit` events of these kinds in `stream` with sequence numbers before
    /// `before`, newest first.
    fn newest_events(
        &mut self,
        stream: StreamId,
        kinds: &[EventKind],
        before: i64,
        limit: u32,
    ) -> Result<Vec<Event>>;

    /// Returns up to `limit` events of all streams after `after`, each with the cursor behind it.
    /// No event can later appear before a returned cursor.
    fn all_events(&mut self, after: Cursor, limit: u32) -> Result<Vec<(Cursor, Event)>>;

    /// Erases the payloads at these sequence numbers and returns how many there were. The caller
    /// must append the `payload_purged` event in the same transaction.
    fn erase_payloads(&mut self, stream: StreamId, sequences: &[i64]) -> Result<u64>;

    /// Returns every stream that has events, ordered by id.
    fn streams(&mut self) -> Result<Vec<StreamId>>;
}

/// Returns the `prev_hash` of a stream's first event.
pub fn genesis_hash() -> String {
    "0".repeat(64)
}

/// Returns the hash of a payload's JSON text.
pub fn payload_hash(payload: &str) -> String {
    blake3::hash(payload.as_bytes()).to_hex().to_string()
}

/// The input of an event's hash: its position, its fields and, through `payload_hash`, its payload.
#[derive(Debug)]
pub struct EventHashInput<'a> {
    pub prev_hash: &'a str,
    pub stream: StreamId,
    pub stream_seq: i64,
    pub kind: &'a EventKind,
    pub v: i64,
    pub at: Timestamp,
    pub actor: &'a str,
    pub payload_hash: &'a str,
}

impl<'a> EventHashInput<'a> {
    pub fn of(event: &'a Event) -> Self {
        Self {
            prev_hash: &event.prev_hash,
            stream: event.stream,
            stream_seq: event.stream_seq,
            kind: &event.kind,
            v: event.v,
            at: event.at,
            actor: &event.actor,
            payload_hash: &event.payload_hash,
        }
    }

    /// Each field is hashed with its length, so different inputs never hash the same bytes.
    pub fn hash(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        let mut field = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        field(self.prev_hash.as_bytes());
        field(self.stream.to_string().as_bytes());
        field(&self.stream_seq.to_le_bytes());
        field(self.kind.as_str().as_bytes());
        field(&self.v.to_le_bytes());
        field(&self.at.as_micros().to_le_bytes());
        field(self.actor.as_bytes());
        field(self.payload_hash.as_bytes());
        hasher.finalize().to_hex().to_string()
    }
}

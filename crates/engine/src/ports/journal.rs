//! The journal: append-only streams, numbered without gaps and chained by hashes.

use cleveragents_domain::{Event, EventKind, NewEvent, StreamId, Timestamp};
use serde::{Deserialize, Serialize};

use super::Result;

/// Where a stream stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamHead {
    /// The place of the newest event; 0 in an empty stream.
    pub stream_seq: i64,
    /// The hash of the newest event; [`genesis_hash`] in an empty stream.
    pub hash: String,
}

/// A place between events of all streams, in the order in which commits became final.
///
/// On PostgreSQL a smaller `seq` may commit after a larger one, so `seq` alone is no cursor: the
/// writing transaction's id comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Cursor {
    pub transaction: i64,
    pub seq: i64,
}

pub trait Journal {
    /// Appends `events` to `stream` and says where it stands then. Appends to one stream queue up
    /// behind each other; they never conflict.
    fn append(&mut self, stream: StreamId, events: &[NewEvent]) -> Result<StreamHead>;

    /// Where `stream` stands; an unknown stream is an empty one.
    fn head(&mut self, stream: StreamId) -> Result<StreamHead>;

    /// Up to `limit` events of `stream` after `stream_seq`, in order.
    fn events(&mut self, stream: StreamId, after: i64, limit: u32) -> Result<Vec<Event>>;

    /// Up to `limit` events of these kinds of `stream` before `stream_seq`, the newest first.
    fn newest_events(
        &mut self,
        stream: StreamId,
        kinds: &[EventKind],
        before: i64,
        limit: u32,
    ) -> Result<Vec<Event>>;

    /// Up to `limit` events of all streams after `cursor`, each with the cursor behind it.
    /// Nothing can later appear before a cursor this has returned.
    fn all_events(&mut self, after: Cursor, limit: u32) -> Result<Vec<(Cursor, Event)>>;

    /// Erases the payloads at these places and says how many there were. The caller appends the
    /// `payload_purged` event in the same transaction.
    fn erase_payloads(&mut self, stream: StreamId, sequences: &[i64]) -> Result<u64>;

    /// Every stream that has events, by id.
    fn streams(&mut self) -> Result<Vec<StreamId>>;
}

/// The `prev_hash` of a stream's first event.
pub fn genesis_hash() -> String {
    "0".repeat(64)
}

/// The hash of a payload's JSON text.
pub fn payload_hash(payload: &str) -> String {
    blake3::hash(payload.as_bytes()).to_hex().to_string()
}

/// What an event's hash covers: its place, its facts and, through `payload_hash`, its payload.
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

    /// Each field goes in with its length, so no two different links hash the same bytes.
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

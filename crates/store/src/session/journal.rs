//! Store operations on the journal.

use cleveragents_domain::upcast::current_version;
use cleveragents_domain::{Event, EventKind, NewEvent, StreamId, Timestamp};
use cleveragents_ports::journal::{EventHashInput, genesis_hash, payload_hash};
use cleveragents_ports::{Cursor, Journal, Result, StoreError, StreamHead};
use serde_json::value::RawValue;

use super::StoreSession;
use super::bulk::{BulkRows, split_batches};
use crate::value::{Param, SqlRow, params};

const LOCK_STREAM: &str =
    "SELECT head_seq, head_hash, now_micros() FROM streams WHERE id = ?1 FOR UPDATE";

const COLUMNS: &str =
    "seq, stream, stream_seq, kind, v, at, actor, payload, payload_hash, prev_hash, hash";

impl Journal for StoreSession<'_> {
    fn append(&mut self, stream: StreamId, events: &[NewEvent]) -> Result<StreamHead> {
        let id = stream.to_string();
        let (mut head, at) = lock_stream(self, &id)?;
        for piece in split_batches(events) {
            head = insert_events(self, stream, head, piece, at)?;
        }
        self.execute(
            "UPDATE streams SET head_seq = ?2, head_hash = ?3 WHERE id = ?1",
            params![&id, head.stream_seq, &head.hash],
        )?;
        Ok(head)
    }

    fn head(&mut self, stream: StreamId) -> Result<StreamHead> {
        let row = self.find(
            "SELECT head_seq, head_hash FROM streams WHERE id = ?1",
            params![stream.to_string()],
        )?;
        row.map_or_else(|| Ok(empty_head()), |row| head_from_row(&row))
    }

    fn events(&mut self, stream: StreamId, after: i64, limit: u32) -> Result<Vec<Event>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM events \
             WHERE stream = ?1 AND stream_seq > ?2 ORDER BY stream_seq LIMIT ?3"
        );
        let rows = self.query(&sql, params![stream.to_string(), after, i64::from(limit)])?;
        rows.iter().map(|row| event_from_row(row, 0)).collect()
    }

    fn newest_events(
        &mut self,
        stream: StreamId,
        kinds: &[EventKind],
        before: i64,
        limit: u32,
    ) -> Result<Vec<Event>> {
        let mut found = Vec::new();
        // One statement per kind, so that a kind is an ordinary parameter.
        for kind in kinds {
            let sql = format!(
                "SELECT {COLUMNS} FROM events WHERE stream = ?1 AND stream_seq < ?2 \
                 AND kind = ?3 ORDER BY stream_seq DESC LIMIT ?4"
            );
            let (stream, limit) = (stream.to_string(), i64::from(limit));
            let rows = self.query(&sql, params![stream, before, kind.as_str(), limit])?;
            for row in &rows {
                found.push(event_from_row(row, 0)?);
            }
        }
        found.sort_by_key(|event: &Event| std::cmp::Reverse(event.stream_seq));
        found.truncate(limit as usize);
        Ok(found)
    }

    fn all_events(&mut self, after: Cursor, limit: u32) -> Result<Vec<(Cursor, Event)>> {
        let sql = self.dialect().all_events_query();
        let rows = self.query(sql, params![after.transaction, after.seq, i64::from(limit)])?;
        let with_cursor = |row: &SqlRow| {
            let event = event_from_row(row, 1)?;
            let cursor = Cursor {
                transaction: row.integer(0)?,
                seq: event.seq,
            };
            Ok((cursor, event))
        };
        rows.iter().map(with_cursor).collect()
    }

    fn erase_payloads(&mut self, stream: StreamId, places: &[i64]) -> Result<u64> {
        let mut erased = 0;
        for place in places {
            erased += self.execute(
                "UPDATE events SET payload = NULL \
                 WHERE stream = ?1 AND stream_seq = ?2 AND payload IS NOT NULL",
                params![stream.to_string(), *place],
            )?;
        }
        Ok(erased)
    }

    fn streams(&mut self) -> Result<Vec<StreamId>> {
        let rows = self.query("SELECT id FROM streams WHERE head_seq > 0 ORDER BY id", &[])?;
        rows.iter().map(|row| row.parsed(0)).collect()
    }
}

/// Locks the stream's row, creating it if necessary, and returns its head and the current time.
/// Other transactions that append wait here, so numbers and hashes follow without a conflict.
pub(super) fn lock_stream(
    session: &mut StoreSession<'_>,
    id: &str,
) -> Result<(StreamHead, Timestamp)> {
    // Streams exist after the first event, so the usual case is one statement.
    if let Some(row) = session.find(LOCK_STREAM, params![id])? {
        return Ok((head_from_row(&row)?, row.time(2)?));
    }
    // A concurrent creator may win; the loser then waits for its row in the second SELECT.
    session.execute(
        "INSERT INTO streams (id, head_seq, head_hash) VALUES (?1, 0, ?2) \
         ON CONFLICT (id) DO NOTHING",
        params![id, genesis_hash()],
    )?;
    let row = session.find(LOCK_STREAM, params![id])?;
    let row = row.ok_or_else(|| StoreError::internal("a new stream was not found"))?;
    Ok((head_from_row(&row)?, row.time(2)?))
}

/// Inserts events after `head` in one statement and returns the new head.
fn insert_events(
    session: &mut StoreSession<'_>,
    stream: StreamId,
    mut head: StreamHead,
    events: &[NewEvent],
    at: Timestamp,
) -> Result<StreamHead> {
    let common = params![stream.to_string(), head.stream_seq, at];
    let mut rows = BulkRows::with_params(common.to_vec());
    for event in events {
        let (row, next) = link_event(stream, head, event, at);
        rows.push(row);
        head = next;
    }
    // Most writes append one event, so that case has the simplest statement.
    let sql = match events.len() {
        1 => session.dialect().insert_event().into(),
        _ => session.dialect().insert_events(&rows.source()),
    };
    session.execute(&sql, &rows.params)?;
    Ok(head)
}

/// Returns the columns of an event that follows `head`, and the new head.
fn link_event(
    stream: StreamId,
    head: StreamHead,
    event: &NewEvent,
    at: Timestamp,
) -> ([Param<'_>; 8], StreamHead) {
    let payload_hash = payload_hash(event.payload());
    let link = EventHashInput {
        prev_hash: &head.hash,
        stream,
        stream_seq: head.stream_seq + 1,
        kind: event.kind(),
        v: current_version(event.kind()),
        at,
        actor: event.actor(),
        payload_hash: &payload_hash,
    };
    let next = StreamHead {
        stream_seq: link.stream_seq,
        hash: link.hash(),
    };
    let row = [
        Param::from(next.stream_seq),
        Param::from(event.kind().as_str()),
        Param::from(link.v),
        Param::from(event.actor()),
        Param::from(event.payload()),
        Param::from(payload_hash),
        Param::from(head.hash),
        Param::from(next.hash.clone()),
    ];
    (row, next)
}

fn empty_head() -> StreamHead {
    StreamHead {
        stream_seq: 0,
        hash: genesis_hash(),
    }
}

fn head_from_row(row: &SqlRow) -> Result<StreamHead> {
    Ok(StreamHead {
        stream_seq: row.integer(0)?,
        hash: row.text(1)?,
    })
}

/// Decodes an event whose columns begin at `first`.
fn event_from_row(row: &SqlRow, first: usize) -> Result<Event> {
    let payload = row
        .optional_text(first + 7)?
        .map(parse_payload)
        .transpose()?;
    Ok(Event {
        seq: row.integer(first)?,
        stream: row.parsed(first + 1)?,
        stream_seq: row.integer(first + 2)?,
        kind: EventKind::from(row.text(first + 3)?.as_str()),
        v: row.integer(first + 4)?,
        at: row.time(first + 5)?,
        actor: row.text(first + 6)?,
        payload,
        payload_hash: row.text(first + 8)?,
        prev_hash: row.text(first + 9)?,
        hash: row.text(first + 10)?,
    })
}

/// Text that is not JSON was written by a foreign program. It is returned as a JSON string, whose
/// hash differs from the payload's, so verification detects it and reading continues.
fn parse_payload(text: String) -> Result<Box<RawValue>> {
    match RawValue::from_string(text.clone()) {
        Ok(payload) => Ok(payload),
        Err(_) => serde_json::value::to_raw_value(&text).map_err(StoreError::internal),
    }
}

//! Verifies that a stream is as it was written: numbered without gaps, each event chained to the
//! one before, each payload matching its hash, each erasure recorded.

use std::collections::BTreeSet;

use cleveragents_domain::event::payloads::PayloadPurged;
use cleveragents_domain::{ChainFault, Event, EventKind, PayloadOutcome, StreamId};
use serde::{Deserialize, Serialize};

use crate::journal::{EventHashInput, genesis_hash, payload_hash};
use crate::{Result, Transaction};

const BATCH: u32 = 1000;

/// A verified stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    pub stream: StreamId,
    pub events: i64,
    /// Number of events whose payload was erased by a recorded purge.
    pub purged: i64,
    pub head_hash: String,
}

/// Verifies `stream` inside a transaction.
pub fn verify_stream(
    tx: &mut dyn Transaction,
    stream: StreamId,
) -> Result<Result<Verification, ChainFault>> {
    let head = tx.head(stream)?;
    let mut chain = Chain::new(stream);
    loop {
        let events = tx.events(stream, chain.last_seq, BATCH)?;
        if events.is_empty() {
            break;
        }
        for event in &events {
            if let Err(fault) = chain.add(event) {
                return Ok(Err(fault));
            }
        }
    }
    Ok(chain.finish(head.stream_seq, &head.hash))
}

/// State of the verification.
struct Chain {
    stream: StreamId,
    last_seq: i64,
    last_hash: String,
    erased: BTreeSet<i64>,
    recorded: BTreeSet<i64>,
}

impl Chain {
    fn new(stream: StreamId) -> Self {
        Self {
            stream,
            last_seq: 0,
            last_hash: genesis_hash(),
            erased: BTreeSet::new(),
            recorded: BTreeSet::new(),
        }
    }

    fn add(&mut self, event: &Event) -> Result<(), ChainFault> {
        let (stream, stream_seq) = (self.stream, event.stream_seq);
        if stream_seq != self.last_seq + 1 {
            return Err(ChainFault::Gap {
                stream,
                expected: self.last_seq + 1,
                found: stream_seq,
            });
        }
        if event.prev_hash != self.last_hash {
            return Err(ChainFault::Unlinked { stream, stream_seq });
        }
        if EventHashInput::of(event).hash() != event.hash {
            return Err(ChainFault::Altered { stream, stream_seq });
        }
        match &event.payload {
            Some(payload) if payload_hash(payload.get()) != event.payload_hash => {
                return Err(ChainFault::PayloadAltered { stream, stream_seq });
            }
            Some(_) if event.kind == EventKind::PayloadPurged => {
                let purged = event.read::<PayloadPurged>().map(PayloadOutcome::known);
                let Ok(Some(purged)) = purged else {
                    return Err(ChainFault::PayloadAltered { stream, stream_seq });
                };
                self.recorded.extend(purged.places);
            }
            Some(_) => {}
            None => {
                self.erased.insert(stream_seq);
            }
        }
        self.last_seq = stream_seq;
        self.last_hash.clone_from(&event.hash);
        Ok(())
    }

    fn finish(self, head_seq: i64, head_hash: &str) -> Result<Verification, ChainFault> {
        let stream = self.stream;
        if let Some(stream_seq) = self.erased.difference(&self.recorded).next() {
            return Err(ChainFault::PayloadMissing {
                stream,
                stream_seq: *stream_seq,
            });
        }
        if head_seq != self.last_seq || head_hash != self.last_hash {
            return Err(ChainFault::HeadDisagrees {
                stream,
                expected: head_seq,
                found: self.last_seq,
            });
        }
        Ok(Verification {
            stream,
            events: self.last_seq,
            purged: i64::try_from(self.erased.len()).unwrap_or(i64::MAX),
            head_hash: self.last_hash,
        })
    }
}

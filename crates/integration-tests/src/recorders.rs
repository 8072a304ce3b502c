//! Recorders of changes, and the check of the result.
//!
//! The path of a change names the recorder and the changeset handle it used, so a misplaced entry
//! is detected in whichever changeset it landed, and a parent knows which changes its killed child
//! had in flight.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use cleveragents_domain::changeset::{ChangesetRecord, NewChange};
use cleveragents_domain::event::payloads::{ChangeRecorded, ChangesetStarted};
use cleveragents_domain::id::{ChangesetId, PlanId, SandboxId};
use cleveragents_domain::{EventKind, StreamId};
use cleveragents_engine::execution::{Changeset, ExecutionContext};
use cleveragents_engine::journal::verify;
use cleveragents_ports::{Lease, Result, StoreError, StoreHandle};
use serde::{Deserialize, Serialize};

use crate::execution_samples::{creation, store_context};
use crate::store_access::{events, payload_of, read};

/// The maximum number of changes recorded together.
const BATCH: u32 = 3;
/// The number of changes after which a recorder starts another changeset.
const CHANGES_PER_CHANGESET: u32 = 12;
/// The number of changesets a recorder keeps open.
const OPEN_CHANGESETS: usize = 3;

/// One change: the `number`th of a thread of a worker, recorded through this changeset's handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecorderMark {
    pub worker: u32,
    pub thread: u32,
    pub number: u32,
    pub changeset: ChangesetId,
}

impl RecorderMark {
    /// The change whose path encodes this mark.
    pub fn change(&self) -> NewChange {
        creation(self.to_string().as_bytes())
    }
}

/// The number of changes in the batch that starts at this number.
pub fn batch_size(number: u32) -> u32 {
    1 + number % BATCH
}

impl fmt::Display for RecorderMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            worker,
            thread,
            number,
            changeset,
        } = self;
        write!(f, "{worker}/{thread}/{number}/{changeset}")
    }
}

impl FromStr for RecorderMark {
    type Err = StoreError;

    fn from_str(path: &str) -> Result<Self> {
        let malformed = || StoreError::internal(format!("`{path}` names no recorder"));
        let words: Vec<&str> = path.split('/').collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse().ok());
        let changeset = words.get(3).and_then(|word| word.parse().ok());
        Ok(Self {
            worker: number(0).ok_or_else(malformed)?,
            thread: number(1).ok_or_else(malformed)?,
            number: number(2).ok_or_else(malformed)?,
            changeset: changeset.ok_or_else(malformed)?,
        })
    }
}

/// A change acknowledged as durable, at this position of its changeset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AckedChange {
    pub mark: RecorderMark,
    pub sequence: i64,
}

impl fmt::Display for AckedChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.sequence, self.mark)
    }
}

impl FromStr for AckedChange {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self> {
        let malformed = || StoreError::internal(format!("`{text}` is malformed"));
        let (sequence, mark) = text.split_once(' ').ok_or_else(malformed)?;
        Ok(Self {
            mark: mark.parse()?,
            sequence: sequence.parse().map_err(|_| malformed())?,
        })
    }
}

/// The lease a recorder uses, with its own changesets and one shared by all.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RecorderContext {
    pub lease: Lease,
    pub sandbox: SandboxId,
    pub shared: ChangesetId,
}

impl RecorderContext {
    /// Creates a plan with a sandbox, an owner and a shared changeset.
    ///
    /// # Panics
    ///
    /// If the changeset cannot be started.
    pub async fn new(store: &StoreHandle) -> Self {
        let (context, sandbox) = store_context(store).await;
        let shared = match context.start_changeset(sandbox, 1, None).await {
            Ok(shared) => shared.id(),
            Err(error) => panic!("{error}"),
        };
        Self {
            lease: context.lease().clone(),
            sandbox,
            shared,
        }
    }
}

/// The size of a recorder's job.
#[derive(Debug, Clone, Copy)]
pub struct Recorder {
    pub worker: u32,
    pub thread: u32,
    pub count: u32,
}

impl Recorder {
    /// Records into several open changesets in turn and reports each change once it is durable.
    pub async fn run(
        self,
        context: &ExecutionContext,
        place: &RecorderContext,
        mut on_ack: impl FnMut(AckedChange),
    ) -> Result<()> {
        let shared = context.changeset(place.shared).await?;
        let mut own: Vec<Changeset> = Vec::new();
        let (mut number, mut fresh_at) = (0, 0);
        while number < self.count {
            if number >= fresh_at {
                own.push(context.start_changeset(place.sandbox, 1, None).await?);
                fresh_at += CHANGES_PER_CHANGESET;
            }
            if own.len() > OPEN_CHANGESETS {
                own.remove(0).close().await?;
            }
            let batch = batch_size(number).min(self.count - number);
            let chosen = match number % 4 {
                0 => &shared,
                _ => &own[number as usize % own.len()],
            };
            for message in self.record(chosen, number, batch).await? {
                on_ack(message);
            }
            number += batch;
        }
        Ok(())
    }

    async fn record(self, chosen: &Changeset, first: u32, batch: u32) -> Result<Vec<AckedChange>> {
        let marks: Vec<RecorderMark> = (first..first + batch)
            .map(|number| RecorderMark {
                worker: self.worker,
                thread: self.thread,
                number,
                changeset: chosen.id(),
            })
            .collect();
        let entries = chosen
            .record(marks.iter().map(RecorderMark::change).collect())
            .await?;
        let message = marks.into_iter().zip(entries);
        Ok(message
            .map(|(mark, entry)| AckedChange {
                mark,
                sequence: entry.sequence,
            })
            .collect())
    }
}

/// Returns the entries of all changesets of a plan. Checks that each entry is in the changeset
/// whose handle recorded it, and that each changeset is numbered without gaps.
///
/// # Panics
///
/// If a check fails, or if the plan's journal differs.
pub async fn verify_changes(store: &StoreHandle, plan: PlanId) -> Vec<AckedChange> {
    let (headers, rows) = read(store, move |tx| {
        let headers = tx.changesets_of(plan)?;
        let mut rows = Vec::new();
        for header in &headers {
            rows.push(tx.changes_after(header.id, 0, u32::MAX)?);
        }
        Ok((headers, rows))
    })
    .await;
    let mut found = Vec::new();
    let mut records: BTreeMap<ChangesetId, Vec<ChangeRecorded>> = BTreeMap::new();
    for (header, rows) in headers.iter().zip(rows) {
        assert_eq!(header.entries, rows.len() as i64, "the header counts them");
        for (place, row) in (1..).zip(rows) {
            assert_eq!(row.entry.sequence, place, "no gap in {}", header.id);
            let mark: RecorderMark = match row.entry.path.to_string().parse() {
                Ok(mark) => mark,
                Err(error) => panic!("{error}"),
            };
            assert_eq!(
                mark.changeset, header.id,
                "{mark:?} is in the changeset of another handle"
            );
            found.push(AckedChange {
                mark,
                sequence: place,
            });
            records.entry(header.id).or_default().push(ChangeRecorded {
                changeset_id: header.id,
                entry: row.entry,
            });
        }
    }
    assert_journal(store, plan, &headers, &records).await;
    found
}

/// Asserts that the journal is intact and has each changeset's start and each of its changes, in
/// order.
async fn assert_journal(
    store: &StoreHandle,
    plan: PlanId,
    headers: &[ChangesetRecord],
    records: &BTreeMap<ChangesetId, Vec<ChangeRecorded>>,
) {
    let stream = StreamId::Plan(plan);
    match verify(store, stream, None).await {
        Ok(Ok(_)) => {}
        other => panic!("{other:?} instead of a whole journal"),
    }
    let mut message: BTreeMap<ChangesetId, Vec<ChangeRecorded>> = BTreeMap::new();
    let mut started = BTreeSet::new();
    for event in events(store, stream).await {
        match event.kind {
            EventKind::ChangeRecorded => {
                let record: ChangeRecorded = payload_of(&event);
                message.entry(record.changeset_id).or_default().push(record);
            }
            EventKind::ChangesetStarted => {
                let ChangesetStarted(header) = payload_of(&event);
                assert!(started.insert(header.id), "started twice");
            }
            _ => {}
        }
    }
    assert_eq!(&message, records, "the journal and the rows agree");
    let there: BTreeSet<ChangesetId> = headers.iter().map(|header| header.id).collect();
    assert_eq!(started, there, "each was started on the record");
}

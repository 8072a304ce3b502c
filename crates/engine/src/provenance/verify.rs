//! Checks a commit against the journal of its plan.

use std::path::PathBuf;
use std::sync::Arc;

use cleveragents_domain::apply_record::{ApplyDirection, ApplyRecord};
use cleveragents_domain::event::payloads::ApplyIntended;
use cleveragents_domain::id::{ApplyId, PlanId};
use cleveragents_domain::plan_trailer::PlanTrailer;
use cleveragents_domain::{ChainFault, Event, EventKind, NamespacedName, PayloadOutcome, StreamId};
use cleveragents_ports::commit_history::HistoryCommit;
use cleveragents_ports::journal_verification::verify_stream;
use cleveragents_ports::{StoreError, Transaction};
use tokio::task::spawn_blocking;

use super::{ProvenanceError, ProvenanceReader, Result, intended_commit, part_of_commit};

/// Number of events read per page.
const PAGE: u32 = 100;

/// A commit that is exactly the one its journal records.
#[derive(Debug, Clone, PartialEq)]
pub struct VerifiedCommit {
    pub commit: String,
    pub plan: PlanId,
    pub name: NamespacedName,
    pub apply: ApplyId,
    pub direction: ApplyDirection,
    /// The place in the journal that the trailer names.
    pub plan_seq: i64,
    pub journal_hash: String,
    /// The number of events of the verified journal.
    pub events: i64,
}

/// Why a commit is not one that its journal records.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CommitFault {
    #[error("its message does not end with an Agents-Plan trailer")]
    NoTrailer,
    #[error("its plan {plan} has no journal in this database")]
    NoJournal { plan: PlanId },
    #[error("the journal of its plan was altered: {fault}")]
    Chain { plan: PlanId, fault: ChainFault },
    #[error("no apply is recorded in the plan's journal under the hash in the trailer")]
    NoEvent { plan: PlanId },
    #[error("the record of this apply is gone: the plan was deleted, or the event was purged")]
    NoRecord { plan: PlanId },
    #[error("{}", other_commit(recorded, *same_tree))]
    OtherCommit {
        plan: PlanId,
        /// The commits that the apply made.
        recorded: Vec<String>,
        /// Whether the files are those that the apply recorded.
        same_tree: bool,
    },
}

fn other_commit(recorded: &[String], same_tree: bool) -> String {
    let recorded = match recorded {
        [] => "the apply made no commit".to_owned(),
        recorded => format!("the apply made {}", recorded.join(", ")),
    };
    if same_tree {
        format!("{recorded}; this commit has the same files, but another parent, author or message")
    } else {
        format!("{recorded}; this commit has other files")
    }
}

impl CommitFault {
    pub fn plan(&self) -> Option<PlanId> {
        match self {
            Self::NoTrailer => None,
            Self::NoJournal { plan }
            | Self::Chain { plan, .. }
            | Self::NoEvent { plan }
            | Self::NoRecord { plan }
            | Self::OtherCommit { plan, .. } => Some(*plan),
        }
    }
}

impl ProvenanceReader {
    /// Checks that the commit `revision` of the repository around `folder` is the one that the
    /// journal in its trailer records: the journal was not altered, has the hash in the trailer at
    /// the start of an apply, and this apply made exactly this commit.
    pub async fn verify(&self, folder: PathBuf, revision: String) -> Result<VerifiedCommit> {
        let (history, asked) = (Arc::clone(&self.history), revision.clone());
        let commit = spawn_blocking(move || history.commit(&folder, &asked)).await??;
        let commit = commit.ok_or(ProvenanceError::NoCommit { revision })?;
        let Some(trailer) = PlanTrailer::from_message(&commit.message) else {
            return Err(ProvenanceError::Fault(Box::new(CommitFault::NoTrailer)));
        };
        let checked = self
            .store
            .read(move |tx| check(tx, &commit, &trailer))
            .await?;
        checked.map_err(|fault| ProvenanceError::Fault(Box::new(fault)))
    }
}

fn check(
    tx: &mut dyn Transaction,
    commit: &HistoryCommit,
    trailer: &PlanTrailer,
) -> std::result::Result<std::result::Result<VerifiedCommit, CommitFault>, StoreError> {
    let plan = trailer.plan;
    let stream = StreamId::Plan(plan);
    if tx.head(stream)?.stream_seq == 0 {
        return Ok(Err(CommitFault::NoJournal { plan }));
    }
    let verified = match verify_stream(tx, stream)? {
        Ok(verified) => verified,
        Err(fault) => return Ok(Err(CommitFault::Chain { plan, fault })),
    };
    let Some(event) = find_intent(tx, stream, &trailer.journal_hash)? else {
        return Ok(Err(CommitFault::NoEvent { plan }));
    };
    let applies = tx.applies_of(plan)?;
    let Some(record) = applies.iter().find(|it| is_recorded_by(it, &event)) else {
        return Ok(Err(CommitFault::NoRecord { plan }));
    };
    if part_of_commit(record, &commit.id).is_none() {
        return Ok(Err(other_commit_fault(record, commit)));
    }
    Ok(Ok(VerifiedCommit {
        commit: commit.id.clone(),
        plan,
        name: tx.plan(plan)?.name,
        apply: record.id,
        direction: record.direction,
        plan_seq: event.stream_seq,
        journal_hash: event.hash,
        events: verified.events,
    }))
}

/// Returns the event with this hash that recorded the start of an apply.
fn find_intent(
    tx: &mut dyn Transaction,
    stream: StreamId,
    hash: &str,
) -> std::result::Result<Option<Event>, StoreError> {
    let mut before = i64::MAX;
    loop {
        let page = tx.newest_events(stream, &[EventKind::ApplyIntended], before, PAGE)?;
        let Some(last) = page.last() else {
            return Ok(None);
        };
        before = last.stream_seq;
        if let Some(found) = page.into_iter().find(|it| it.hash == hash) {
            return Ok(Some(found));
        }
    }
}

fn is_recorded_by(record: &ApplyRecord, event: &Event) -> bool {
    let payload = event.read::<ApplyIntended>().map(PayloadOutcome::known);
    matches!(payload, Ok(Some(it)) if it.apply_id == record.id)
}

fn other_commit_fault(record: &ApplyRecord, commit: &HistoryCommit) -> CommitFault {
    let made = record.resources.iter().filter_map(|part| {
        let result = part.result.as_ref().and_then(|it| it.commit.clone());
        result.or_else(|| Some(intended_commit(part)?.new.clone()))
    });
    let mut effects = record.resources.iter().filter_map(intended_commit);
    CommitFault::OtherCommit {
        plan: record.plan_id,
        recorded: made.collect(),
        same_tree: effects.any(|it| it.new_tree == commit.tree),
    }
}

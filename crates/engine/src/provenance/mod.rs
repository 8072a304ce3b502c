//! Which plan wrote a commit and its lines.
//!
//! A commit that an apply makes names its plan and a place in the plan's journal
//! ([`PlanTrailer`](cleveragents_domain::plan_trailer::PlanTrailer)). [`verify`] checks a commit
//! against that journal. [`blame`] adds to each line of a file the plan, the decision and the tool
//! call that wrote it; `line_calls` finds the call from the captured trees.

pub mod blame;
mod line_calls;
pub mod verify;

use std::sync::Arc;

use cleveragents_domain::apply_intent::{ApplyEffect, CommitEffect};
use cleveragents_domain::apply_record::{ApplyPart, ApplyRecord};
use cleveragents_ports::commit_history::CommitHistory;
use cleveragents_ports::sandbox::SandboxError;
use cleveragents_ports::{StoreError, StoreHandle};
use tokio::task::JoinError;

use crate::execution::ResultReader;

pub use blame::{FileOrigins, LineCall, LineDecision, LinePlan, LineWithOrigin, MissingTrees};
pub use verify::{CommitFault, VerifiedCommit};

/// Reads where commits and lines come from.
#[derive(Debug, Clone)]
pub struct ProvenanceReader {
    store: StoreHandle,
    history: Arc<dyn CommitHistory>,
    results: ResultReader,
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum ProvenanceError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error("`{revision}` names no commit")]
    NoCommit { revision: String },
    /// The commit is not one that its journal records.
    #[error("{0}")]
    Fault(Box<CommitFault>),
    #[error("the work ended unexpectedly: {reason}")]
    Internal { reason: String },
}

impl From<JoinError> for ProvenanceError {
    fn from(error: JoinError) -> Self {
        Self::Internal {
            reason: error.to_string(),
        }
    }
}

pub type Result<T> = std::result::Result<T, ProvenanceError>;

impl ProvenanceReader {
    pub fn new(store: StoreHandle, history: Arc<dyn CommitHistory>, results: ResultReader) -> Self {
        Self {
            store,
            history,
            results,
        }
    }
}

/// Returns the part of the attempt that made this commit.
fn part_of_commit<'a>(record: &'a ApplyRecord, commit: &str) -> Option<&'a ApplyPart> {
    record.resources.iter().find(|part| {
        let result = part.result.as_ref().and_then(|it| it.commit.as_deref());
        // The process that made the commit may have died before it recorded the result.
        let intended = intended_commit(part).map(|it| it.new.as_str());
        result.or(intended) == Some(commit)
    })
}

fn intended_commit(part: &ApplyPart) -> Option<&CommitEffect> {
    match &part.intent.as_ref()?.effect {
        ApplyEffect::Commit(effect) => Some(effect),
        ApplyEffect::Files(_) | ApplyEffect::Patch(_) => None,
    }
}

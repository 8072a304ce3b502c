//! Errors of the store.
//!
//! Each variant carries what the user needs to know next: who holds the name, which version was
//! found, which path is full. The command line maps them to exit codes and hints.

use std::path::PathBuf;

use cleveragents_domain::Timestamp;
use cleveragents_domain::id::{OwnerId, PlanId};

use super::entity::{Entity, UniqueKey};

pub type Result<T, E = StoreError> = std::result::Result<T, E>;

#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    // Refusals: the store works, but the request cannot be fulfilled.
    #[error("{entity} {id} was changed concurrently: expected version {expected}, found {found}")]
    Conflict {
        entity: Entity,
        id: String,
        expected: i64,
        found: i64,
    },
    #[error("{key} `{name}` is taken by {holder}")]
    Taken {
        key: UniqueKey,
        name: String,
        holder: String,
    },
    /// The record cannot be deleted, because others refer to it.
    #[error("the {entity} `{name}` is taken by {}", referrers.join(", "))]
    Referenced {
        entity: Entity,
        name: String,
        referrers: Vec<String>,
    },
    #[error("the name of a lock may be {maximum} bytes long, this one has {length}")]
    LockNameTooLong { length: usize, maximum: usize },
    #[error("{entity} `{name}` is archived and cannot be used")]
    Archived { entity: Entity, name: String },
    /// The request does not match the state of the record. `reason` continues the sentence after
    /// its name.
    #[error("{entity} `{id}` {reason}")]
    Refused {
        entity: Entity,
        id: String,
        reason: String,
    },
    #[error("there is no {entity} `{id}`")]
    NotFound { entity: Entity, id: String },
    #[error("`{fragment}` is ambiguous: {}", candidates.join(", "))]
    Ambiguous {
        fragment: String,
        candidates: Vec<String>,
    },
    #[error("lock `{name}` is held by {owner} until {expires_at}")]
    LockHeld {
        name: String,
        owner: OwnerId,
        node: String,
        epoch: i64,
        expires_at: Timestamp,
    },
    #[error("lock `{name}` with epoch {epoch} is no longer held by {owner}")]
    LockLost {
        name: String,
        owner: OwnerId,
        epoch: i64,
    },
    #[error("the run of plan {plan} with epoch {epoch} has ended or been taken over")]
    LeaseLost { plan: PlanId, epoch: i64 },
    #[error("operation {id} was `{first}` before and cannot be `{second}` now")]
    OperationReused {
        id: String,
        first: String,
        second: String,
    },

    #[error("the database is not empty: it holds {}", contents.join(", "))]
    NotEmpty { contents: Vec<String> },

    // Temporary: nothing is known to be lost; the same operation id may be sent again.
    #[error("the store is unavailable: {reason}")]
    Unavailable { reason: String },
    #[error("another process is using the store: {}", holders.join("; "))]
    InUse { holders: Vec<String> },

    // The user must act first.
    #[error("no space left for {}: {reason}", path.display())]
    Full { path: PathBuf, reason: String },
    #[error("{} cannot be written: {reason}", path.display())]
    NotWritable { path: PathBuf, reason: String },
    #[error("{} is not a healthy database: {reason}", path.display())]
    Corrupt { path: PathBuf, reason: String },
    #[error("the journal in {} was altered: {fault}", path.display())]
    Altered { path: PathBuf, fault: String },
    #[error(
        "{place} has schema {found}, written by agents {written_by}; this program knows schemas up to {known}"
    )]
    Newer {
        place: String,
        found: i64,
        known: i64,
        written_by: String,
    },
    #[error(
        "{} is on a network file system ({kind}), where SQLite is not safe",
        path.display()
    )]
    NetworkFileSystem { path: PathBuf, kind: String },
    #[error("the data directory {} was removed or replaced while in use", path.display())]
    Vanished { path: PathBuf },
    #[error("the database address is not usable: {reason}")]
    Address { reason: String },
    #[error("internal error of the store: {reason}")]
    Internal { reason: String },
}

impl StoreError {
    pub fn unavailable(reason: impl ToString) -> Self {
        Self::Unavailable {
            reason: reason.to_string(),
        }
    }

    pub fn internal(reason: impl ToString) -> Self {
        Self::Internal {
            reason: reason.to_string(),
        }
    }

    /// Whether the same write, with the same operation id, may succeed if sent again.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::InUse { .. })
    }
}

//! Named locks with a lifetime. They are re-entrant for their owner. An expired lock is taken over
//! by exactly one claimant.

use std::time::Duration;

use cleveragents_domain::Timestamp;
use cleveragents_domain::id::OwnerId;
use serde::{Deserialize, Serialize};

use super::Result;

#[derive(Debug, Clone)]
pub struct LockRequest {
    pub name: String,
    pub owner: OwnerId,
    pub node: String,
    pub ttl: Duration,
    /// A holder and epoch proven dead; its lifetime need not expire first.
    pub dead_holder: Option<(OwnerId, i64)>,
}

/// A held lock. The epoch grows with every new holder; a write under a lock carries it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockGrant {
    pub name: String,
    pub owner: OwnerId,
    pub epoch: i64,
    /// Number of times that the owner acquired it without releasing it.
    pub holds: i64,
    pub expires_at: Timestamp,
}

/// A held lock, as listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockRow {
    pub name: String,
    pub owner: OwnerId,
    pub node: String,
    pub epoch: i64,
    pub acquired_at: Timestamp,
    pub expires_at: Timestamp,
}

/// Maximum length of a lock name, in bytes.
pub const NAME_MAXIMUM: usize = 1000;

pub trait LockRecords {
    /// Takes a lock that is free, expired, or whose holder is proven dead. An owner can acquire its
    /// own lock again, which never shortens its lifetime. Otherwise fails with `LockHeld`, which
    /// names the holder. Fails with `LockNameTooLong` if the name exceeds [`NAME_MAXIMUM`].
    fn acquire_lock(&mut self, request: &LockRequest) -> Result<LockGrant>;

    /// Extends a held lock. Fails with `LockLost` if it is no longer held.
    fn renew_lock(&mut self, grant: &LockGrant, ttl: Duration) -> Result<LockGrant>;

    /// Undoes one acquire; the last one frees the lock. Fails with `LockLost` if another owner has
    /// it.
    fn release_lock(&mut self, grant: &LockGrant) -> Result<()>;

    /// Frees all locks of an owner and returns their number.
    fn release_all_for_owner(&mut self, owner: OwnerId) -> Result<u64>;

    /// Fails the whole transaction with `LockLost` unless the grant's epoch is the newest, and
    /// keeps it the newest until the transaction ends.
    fn fence_lock(&mut self, grant: &LockGrant) -> Result<()>;

    /// Returns all held locks, including expired ones.
    fn locks(&mut self) -> Result<Vec<LockRow>>;
}

//! Named locks with an end: re-entrant for their owner, taken over by exactly one when expired.

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
    /// A holder and epoch proven dead: its lifetime need not run out first.
    pub dead_holder: Option<(OwnerId, i64)>,
}

/// A held lock. The epoch grows with every new holder; a write under a lock carries it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockGrant {
    pub name: String,
    pub owner: OwnerId,
    pub epoch: i64,
    /// How often the owner has acquired it without releasing.
    pub holds: i64,
    pub expires_at: Timestamp,
}

/// A held lock as others see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockRow {
    pub name: String,
    pub owner: OwnerId,
    pub node: String,
    pub epoch: i64,
    pub acquired_at: Timestamp,
    pub expires_at: Timestamp,
}

/// The longest name of a lock, in bytes.
pub const NAME_MAXIMUM: usize = 1000;

pub trait LockRecords {
    /// Takes a free or expired lock or one whose holder is proven dead, or takes one's own once
    /// more, which never brings its end nearer; else `LockHeld` names the holder. A name beyond [`NAME_MAXIMUM`] is `TooLong`.
    fn acquire_lock(&mut self, request: &LockRequest) -> Result<LockGrant>;

    /// Moves the end of a lock still held; `LockLost` otherwise.
    fn renew_lock(&mut self, grant: &LockGrant, ttl: Duration) -> Result<LockGrant>;

    /// Undoes one acquire; the last one frees the lock. `LockLost` if another has it.
    fn release_lock(&mut self, grant: &LockGrant) -> Result<()>;

    /// Frees everything an owner holds and says how many locks that were.
    fn release_all_for_owner(&mut self, owner: OwnerId) -> Result<u64>;

    /// Refuses the whole transaction with `LockLost` unless the grant's epoch is the newest, and
    /// keeps it so until the transaction ends.
    fn fence_lock(&mut self, grant: &LockGrant) -> Result<()>;

    /// All held locks, expired ones included.
    fn locks(&mut self) -> Result<Vec<LockRow>>;
}

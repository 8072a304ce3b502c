//! Named locks for callers: bounded lifetimes, repeatable requests.

use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::id::OwnerId;

use crate::ports::{
    Ids, LockGrant, LockRequest, LockRow, Operation, Result, StoreError, StoreHandle,
};

pub const TTL_DEFAULT: Duration = Duration::from_secs(5 * 60);
pub const TTL_MINIMUM: Duration = Duration::from_secs(5);
pub const TTL_MAXIMUM: Duration = Duration::from_secs(60 * 60);

/// Locks of one owner. A lifetime outside the bounds is moved to the nearest bound.
#[derive(Debug, Clone)]
pub struct LockService {
    store: StoreHandle,
    ids: Arc<dyn Ids>,
    owner: OwnerId,
}

impl LockService {
    pub fn new(store: StoreHandle, ids: Arc<dyn Ids>, owner: OwnerId) -> Self {
        Self { store, ids, owner }
    }

    /// Takes the lock, or answers at once with who has it.
    pub async fn acquire(&self, name: &str, ttl: Duration) -> Result<LockGrant> {
        let request = LockRequest {
            name: name.to_owned(),
            owner: self.owner,
            ttl: ttl.clamp(TTL_MINIMUM, TTL_MAXIMUM),
        };
        self.store
            .write(self.operation("lock.acquire"), move |unit| {
                unit.acquire_lock(&request)
            })
            .await
    }

    pub async fn renew(&self, grant: &LockGrant, ttl: Duration) -> Result<LockGrant> {
        let grant = grant.clone();
        let ttl = ttl.clamp(TTL_MINIMUM, TTL_MAXIMUM);
        self.store
            .write(self.operation("lock.renew"), move |unit| {
                unit.renew_lock(&grant, ttl)
            })
            .await
    }

    pub async fn release(&self, grant: &LockGrant) -> Result<()> {
        let grant = grant.clone();
        self.store
            .write(self.operation("lock.release"), move |unit| {
                unit.release_lock(&grant)
            })
            .await
    }

    pub async fn release_all_for_owner(&self, owner: OwnerId) -> Result<u64> {
        self.store
            .write(self.operation("lock.release-all"), move |unit| {
                unit.release_all_for_owner(owner)
            })
            .await
    }

    /// Locks past their end that nobody has taken over yet.
    pub async fn stale(&self) -> Result<Vec<LockRow>> {
        self.store
            .read(|unit| {
                let now = unit.now()?;
                let mut rows = unit.locks()?;
                rows.retain(|row| row.expires_at <= now);
                Ok::<_, StoreError>(rows)
            })
            .await
    }

    fn operation(&self, label: &'static str) -> Operation {
        Operation::new(&*self.ids, label)
    }
}

//! Named locks with bounded lifetimes and repeatable requests.

use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::id::OwnerId;

use cleveragents_ports::{
    Ids, Liveness, LockGrant, LockRequest, LockRow, Result, StoreError, StoreHandle, StoreOperation,
};

pub const TTL_DEFAULT: Duration = Duration::from_secs(5 * 60);
pub const TTL_MINIMUM: Duration = Duration::from_secs(5);
pub const TTL_MAXIMUM: Duration = Duration::from_secs(60 * 60);

/// The locks of one owner. A lifetime outside the bounds is clamped.
#[derive(Debug, Clone)]
pub struct LockService {
    store: StoreHandle,
    ids: Arc<dyn Ids>,
    liveness: Arc<dyn Liveness>,
    owner: OwnerId,
}

impl LockService {
    pub fn new(
        store: StoreHandle,
        ids: Arc<dyn Ids>,
        liveness: Arc<dyn Liveness>,
        owner: OwnerId,
    ) -> Self {
        Self {
            store,
            ids,
            liveness,
            owner,
        }
    }

    /// Acquires the lock, or fails at once with its holder. Does not wait for a holder proven dead
    /// on this machine.
    pub async fn acquire(&self, name: &str, ttl: Duration) -> Result<LockGrant> {
        let mut request = LockRequest {
            name: name.to_owned(),
            owner: self.owner,
            node: self.liveness.node().to_owned(),
            ttl: ttl.clamp(TTL_MINIMUM, TTL_MAXIMUM),
            dead_holder: None,
        };
        // Before the first attempt: once this process holds a lock, its death must be provable.
        self.liveness.keep_lock_file();
        loop {
            match self.attempt(request.clone()).await {
                Err(StoreError::LockHeld {
                    owner, node, epoch, ..
                }) if request.dead_holder != Some((owner, epoch))
                    && self.liveness.is_dead(owner, &node) =>
                {
                    request.dead_holder = Some((owner, epoch));
                }
                answer => return answer,
            }
        }
    }

    async fn attempt(&self, request: LockRequest) -> Result<LockGrant> {
        self.store
            .write(self.operation("lock.acquire"), move |tx| {
                tx.acquire_lock(&request)
            })
            .await
    }

    pub async fn renew(&self, grant: &LockGrant, ttl: Duration) -> Result<LockGrant> {
        let grant = grant.clone();
        let ttl = ttl.clamp(TTL_MINIMUM, TTL_MAXIMUM);
        self.store
            .write(self.operation("lock.renew"), move |tx| {
                tx.renew_lock(&grant, ttl)
            })
            .await
    }

    pub async fn release(&self, grant: &LockGrant) -> Result<()> {
        let grant = grant.clone();
        self.store
            .write(self.operation("lock.release"), move |tx| {
                tx.release_lock(&grant)
            })
            .await
    }

    pub async fn release_all_for_owner(&self, owner: OwnerId) -> Result<u64> {
        self.store
            .write(self.operation("lock.release-all"), move |tx| {
                tx.release_all_for_owner(owner)
            })
            .await
    }

    /// Returns expired locks, and locks whose holder is proven dead, that were not taken over yet.
    pub async fn stale(&self) -> Result<Vec<LockRow>> {
        let (now, mut rows) = self
            .store
            .read(|tx| Ok::<_, StoreError>((tx.now()?, tx.locks()?)))
            .await?;
        rows.retain(|row| row.expires_at <= now || self.liveness.is_dead(row.owner, &row.node));
        Ok(rows)
    }

    fn operation(&self, label: &'static str) -> StoreOperation {
        StoreOperation::new(&*self.ids, label)
    }
}

//! A claimed run: the owner's only way to write, and its heartbeat.

use std::sync::Arc;

use cleveragents_domain::event::payloads::RunReleased;
use cleveragents_domain::{MessageKind, StreamId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::Instant;

use super::service::{HEARTBEAT, LEASE};
use crate::journal::new_event;
use cleveragents_ports::{
    Ids, Lease, Result, StoreError, StoreHandle, StoreOperation, Transaction,
};

/// Writes for a plan's owner, each fenced by the lease's epoch (law 5). The lease is plain data, so
/// an owner can pass the writer to its threads and children.
#[derive(Debug, Clone)]
pub struct FencedWriter {
    store: StoreHandle,
    lease: Lease,
}

impl FencedWriter {
    pub fn new(store: StoreHandle, lease: Lease) -> Self {
        Self { store, lease }
    }

    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    pub fn store(&self) -> &StoreHandle {
        &self.store
    }

    /// The acting owner, for the journal.
    pub fn actor(&self) -> String {
        self.lease.owner.to_string()
    }

    /// Writes as the plan's owner. Fails with `LeaseLost` if it no longer is.
    pub async fn write<T, E, F>(&self, operation: StoreOperation, change: F) -> Result<T, E>
    where
        T: Serialize + DeserializeOwned,
        E: From<StoreError> + Send + 'static,
        F: Fn(&mut dyn Transaction) -> Result<T, E> + Send + 'static,
    {
        let lease = self.lease.clone();
        self.store
            .write(operation, move |tx| {
                // First in the transaction: the fence locks the run, and locks are taken in the
                // order run, plan, outcome, stream.
                tx.fence(&lease)?;
                change(tx)
            })
            .await
    }
}

/// The right to move a plan. Every write through it is fenced by its epoch, so once another process
/// has taken over, this one can write nothing more (law 5).
#[derive(Debug)]
pub struct RunLease {
    store: StoreHandle,
    ids: Arc<dyn Ids>,
    lease: Lease,
    since: Instant,
}

impl RunLease {
    pub(super) fn new(store: StoreHandle, ids: Arc<dyn Ids>, lease: Lease) -> Self {
        Self {
            store,
            ids,
            lease,
            since: Instant::now(),
        }
    }

    /// When this process claimed the run.
    pub fn since(&self) -> Instant {
        self.since
    }

    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Writes as the plan's owner. Fails with `LeaseLost` if it no longer is.
    pub async fn write<T, E, F>(&self, operation: StoreOperation, change: F) -> Result<T, E>
    where
        T: Serialize + DeserializeOwned,
        E: From<StoreError> + Send + 'static,
        F: Fn(&mut dyn Transaction) -> Result<T, E> + Send + 'static,
    {
        self.fenced_writer().write(operation, change).await
    }

    /// Returns a writer with the same lease, for threads that work for this owner.
    pub fn fenced_writer(&self) -> FencedWriter {
        FencedWriter::new(self.store.clone(), self.lease.clone())
    }

    /// Extends the lease once.
    pub async fn heartbeat(&self) -> Result<Lease> {
        let lease = self.lease.clone();
        self.store
            // Has no stored result (law 12): a repeated heartbeat only extends the lease again.
            .write(StoreOperation::idempotent("run.heartbeat"), move |tx| {
                tx.heartbeat(&lease, LEASE)
            })
            .await
    }

    /// Keeps the lease alive until the returned guard is dropped. If the lease is lost,
    /// [`KeepAlive::lost`] resolves and the owner must stop.
    pub fn keep_alive(&self) -> KeepAlive {
        let (lost, receiver) = watch::channel(false);
        let beat = Self::new(
            self.store.clone(),
            Arc::clone(&self.ids),
            self.lease.clone(),
        );
        // A task of its own: the owner's work may not yield for longer than a lease lasts.
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(HEARTBEAT).await;
                match beat.heartbeat().await {
                    Ok(_) => {}
                    // Not lost yet: the lease outlives several heartbeats. If it expires, the next
                    // fenced write fails.
                    Err(error) if error.is_temporary() => {
                        tracing::warn!(%error, plan = %beat.lease.plan, "heartbeat not written");
                    }
                    Err(error) => {
                        tracing::warn!(%error, plan = %beat.lease.plan, "lease lost");
                        // A closed channel is fine: the next fenced write fails with the same
                        // error.
                        let _ = lost.send(true);
                        return;
                    }
                }
            }
        });
        KeepAlive {
            task,
            lost: receiver,
        }
    }

    /// Releases the run and records it. A cancel request locks the run while it writes its message,
    /// so the message is either seen here or written when the plan has no owner.
    pub async fn release(self) -> Result<ReleaseOutcome> {
        let lease = self.lease.clone();
        let released = self
            .store
            .write(StoreOperation::new(&*self.ids, "run.release"), move |tx| {
                tx.run_for_update(lease.plan)?;
                if tx.pending_messages(lease.plan, &[MessageKind::Cancel])? > 0 {
                    // `CancelRequested` says that the lease is still held, so this transaction must
                    // prove it.
                    tx.fence(&lease)?;
                    return Ok(false);
                }
                tx.release_run(&lease)?;
                let released = RunReleased {
                    plan: lease.plan,
                    owner: lease.owner,
                    epoch: lease.epoch,
                    expires_at: lease.expires_at,
                };
                let event = new_event(&lease.owner.to_string(), &released)?;
                tx.append(StreamId::Plan(lease.plan), &[event])?;
                Ok::<_, StoreError>(true)
            })
            .await?;
        Ok(if released {
            ReleaseOutcome::Done
        } else {
            ReleaseOutcome::CancelRequested(self)
        })
    }
}

#[must_use = "a run that was not released has messages to handle first"]
#[derive(Debug)]
pub enum ReleaseOutcome {
    Done,
    /// There is a cancel request that was not taken yet. The lease is still held.
    CancelRequested(RunLease),
}

/// A running heartbeat; stops when dropped.
#[derive(Debug)]
pub struct KeepAlive {
    task: tokio::task::JoinHandle<()>,
    lost: watch::Receiver<bool>,
}

impl KeepAlive {
    /// Returns a future that resolves when the lease is lost.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut lost = self.lost.clone();
        async move {
            // A closed channel means that the task ended without losing the lease, which only a
            // drop causes.
            let _ = lost.wait_for(|lost| *lost).await;
        }
    }
}

impl Drop for KeepAlive {
    fn drop(&mut self) {
        // Safe at any point: a heartbeat is one transaction, committed or not.
        self.task.abort();
    }
}

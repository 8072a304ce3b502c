//! A claimed run: the owner's only way to write, and its heartbeat.

use std::sync::Arc;

use cleveragents_domain::{EventKind, MessageKind, NewEvent, StreamId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::Instant;

use super::service::{HEARTBEAT, LEASE};
use crate::ports::{Ids, Lease, Result, StoreError, StoreHandle, StoreOperation, Transaction};

/// Writes in the name of a plan's owner, each fenced by its lease's epoch (law 5). The lease is
/// plain data, so an owner can have its threads and children write for it.
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

    /// Who acts, for the journal.
    pub fn actor(&self) -> String {
        self.lease.owner.to_string()
    }

    /// A write of the plan's owner: refused with `LeaseLost` if it no longer is.
    pub async fn write<T, E, F>(&self, operation: StoreOperation, change: F) -> Result<T, E>
    where
        T: Serialize + DeserializeOwned,
        E: From<StoreError> + Send + 'static,
        F: Fn(&mut dyn Transaction) -> Result<T, E> + Send + 'static,
    {
        let lease = self.lease.clone();
        self.store
            .write(operation, move |tx| {
                tx.fence(&lease)?;
                change(tx)
            })
            .await
    }
}

/// The right to move a plan. Every write through it is fenced by its epoch: once another process
/// has taken over, nothing this one still tries can do harm (law 5).
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

    /// When this process took the run.
    pub fn since(&self) -> Instant {
        self.since
    }

    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// A write of the plan's owner: refused with `LeaseLost` if it no longer is.
    pub async fn write<T, E, F>(&self, operation: StoreOperation, change: F) -> Result<T, E>
    where
        T: Serialize + DeserializeOwned,
        E: From<StoreError> + Send + 'static,
        F: Fn(&mut dyn Transaction) -> Result<T, E> + Send + 'static,
    {
        self.fenced_writer().write(operation, change).await
    }

    /// The same right to write, for whoever works for this owner.
    pub fn fenced_writer(&self) -> FencedWriter {
        FencedWriter::new(self.store.clone(), self.lease.clone())
    }

    /// Moves the lease's end once.
    pub async fn heartbeat(&self) -> Result<Lease> {
        let lease = self.lease.clone();
        self.store
            .write(StoreOperation::idempotent("run.heartbeat"), move |tx| {
                tx.heartbeat(&lease, LEASE)
            })
            .await
    }

    /// Keeps the lease alive until the returned guard is dropped. Its receiver turns true when the
    /// lease is lost; the owner then has to stop.
    pub fn keep_alive(&self) -> KeepAlive {
        let (lost, receiver) = watch::channel(false);
        let beat = Self::new(
            self.store.clone(),
            Arc::clone(&self.ids),
            self.lease.clone(),
        );
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(HEARTBEAT).await;
                match beat.heartbeat().await {
                    Ok(_) => {}
                    Err(error) if error.is_temporary() => {
                        tracing::warn!(%error, plan = %beat.lease.plan, "heartbeat not written");
                    }
                    Err(error) => {
                        tracing::warn!(%error, plan = %beat.lease.plan, "lease lost");
                        // Nobody listening is fine: the next fenced write says the same.
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

    /// Gives the run back, on the record. Who asks for a cancel holds the run while it leaves its
    /// message, so that the message is either seen here or comes when nobody owns the plan.
    pub async fn release(self) -> Result<ReleaseOutcome> {
        let lease = self.lease.clone();
        let released = self
            .store
            .write(StoreOperation::new(&*self.ids, "run.release"), move |tx| {
                tx.run_for_update(lease.plan)?;
                if tx.pending_messages(lease.plan, &[MessageKind::Cancel])? > 0 {
                    tx.fence(&lease)?;
                    return Ok(false);
                }
                tx.release_run(&lease)?;
                let event = NewEvent::new(EventKind::RunReleased, lease.owner.to_string(), &lease)
                    .map_err(StoreError::internal)?;
                tx.append(StreamId::Plan(lease.plan), &[event])?;
                Ok::<_, StoreError>(true)
            })
            .await?;
        Ok(match released {
            true => ReleaseOutcome::Done,
            false => ReleaseOutcome::CancelRequested(self),
        })
    }
}

/// What came of giving a run back.
#[must_use = "a run that was not given back has messages to take first"]
#[derive(Debug)]
pub enum ReleaseOutcome {
    Done,
    /// Somebody asked the owner to stop and nobody took that message yet.
    CancelRequested(RunLease),
}

/// A heartbeat in progress; ends when dropped.
#[derive(Debug)]
pub struct KeepAlive {
    task: tokio::task::JoinHandle<()>,
    lost: watch::Receiver<bool>,
}

impl KeepAlive {
    /// Resolves when the lease is lost.
    pub async fn lost(&mut self) {
        // A closed channel means the task ended without losing it, which only a drop does.
        let _ = self.lost.wait_for(|lost| *lost).await;
    }
}

impl Drop for KeepAlive {
    fn drop(&mut self) {
        self.task.abort();
    }
}

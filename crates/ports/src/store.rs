//! The store: runs transactions, and nothing else.
//!
//! A write is a closure over a [`Transaction`] with an operation id made by the caller (law 12).
//! The closure may run more than once and sees a consistent state. The call returns only when the
//! result is durable. The same operation id again returns the first result without running the
//! closure.

use std::any::Any;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use cleveragents_domain::Timestamp;
use cleveragents_domain::id::OperationId;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::{
    Actions, ActorRecords, Applies, Blobs, Decisions, Ids, Journal, LockRecords, ModelCalls, Plans,
    Policies, Projects, Result, Runs, SandboxRecords, StagedBlob, StoreError, ToolCalls,
    Validations,
};

/// All operations of one transaction.
pub trait Transaction:
    Journal
    + Blobs
    + Runs
    + LockRecords
    + Actions
    + ActorRecords
    + Projects
    + Policies
    + Validations
    + Plans
    + Decisions
    + SandboxRecords
    + ToolCalls
    + ModelCalls
    + Applies
{
    /// The database's time, by which leases expire (law 11).
    fn now(&mut self) -> Result<Timestamp>;
}

/// Identifies a write. The id makes it safe to repeat; the label is for people.
///
/// The store compares the label with that of the first write of the same id. Only the label of a
/// [keyed](Self::keyed) write must therefore stay the same in later versions: all other ids are new
/// in every process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreOperation {
    /// `None` for a write that is harmless to repeat; nothing is stored for it.
    pub id: Option<OperationId>,
    pub label: &'static str,
}

impl StoreOperation {
    pub fn new(ids: &dyn Ids, label: &'static str) -> Self {
        Self {
            id: Some(OperationId::new(ids.next())),
            label,
        }
    }

    /// A write that has the same effect however often it runs, such as a heartbeat.
    pub const fn idempotent(label: &'static str) -> Self {
        Self { id: None, label }
    }

    /// A write identified by the caller's `key`: the same key is the same write.
    pub fn keyed(key: &str, label: &'static str) -> Self {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&blake3::hash(key.as_bytes()).as_bytes()[..16]);
        Self {
            id: Some(OperationId::new(ulid::Ulid::from_bytes(bytes))),
            label,
        }
    }
}

/// Error of a job: one of the store, or one returned by the caller's closure.
#[derive(Debug)]
pub enum StoreJobError {
    Store(StoreError),
    Caller(Box<dyn Any + Send>),
}

pub type WriteJob = Box<dyn Fn(&mut dyn Transaction) -> Result<String, StoreJobError> + Send>;
pub type ReadJob =
    Box<dyn Fn(&mut dyn Transaction) -> Result<Box<dyn Any + Send>, StoreJobError> + Send>;
pub type StoreFuture<T, E = StoreError> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

/// A transaction engine. Callers use it through [`StoreHandle`], which adds the types.
pub trait Store: Send + Sync + Debug {
    /// Runs `job` in one transaction and returns its JSON once durable. A repeated operation id
    /// returns the JSON of the first run.
    fn write(&self, operation: StoreOperation, job: WriteJob)
    -> StoreFuture<String, StoreJobError>;

    /// Runs `job` on a consistent snapshot. It cannot write and never waits for a writer.
    fn read(&self, job: ReadJob) -> StoreFuture<Box<dyn Any + Send>, StoreJobError>;

    /// Makes `bytes` durable, so that a row can refer to them; see [`Blobs::put_blob`].
    fn stage_blob(self: Arc<Self>, bytes: Vec<u8>) -> StoreFuture<StagedBlob>;

    /// Changes after commits: of this process immediately, of others soon. A hint may be missing or
    /// spurious, so a waiter must poll as well.
    fn watch_commits(&self) -> watch::Receiver<u64>;
}

/// A cheap handle on the store.
#[derive(Debug, Clone)]
pub struct StoreHandle(Arc<dyn Store>);

impl StoreHandle {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self(store)
    }

    /// Runs one transaction. `change` is synchronous, must use only its `Transaction`, and may run
    /// again.
    pub async fn write<T, E, F>(&self, operation: StoreOperation, change: F) -> Result<T, E>
    where
        T: Serialize + DeserializeOwned,
        E: From<StoreError> + Send + 'static,
        F: Fn(&mut dyn Transaction) -> Result<T, E> + Send + 'static,
    {
        let job: WriteJob = Box::new(move |tx| {
            let value = change(tx).map_err(|error| StoreJobError::Caller(Box::new(error)))?;
            serde_json::to_string(&value).map_err(|e| StoreJobError::Store(StoreError::internal(e)))
        });
        let json = self
            .0
            .write(operation, job)
            .await
            .map_err(unwrap_job_error::<E>)?;
        serde_json::from_str(&json).map_err(|e| StoreError::internal(e).into())
    }

    /// Reads from one consistent snapshot.
    pub async fn read<T, E, F>(&self, query: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: Fn(&mut dyn Transaction) -> Result<T, E> + Send + 'static,
    {
        let job: ReadJob = Box::new(move |tx| match query(tx) {
            Ok(value) => Ok(Box::new(value) as Box<dyn Any + Send>),
            Err(error) => Err(StoreJobError::Caller(Box::new(error))),
        });
        let value = self.0.read(job).await.map_err(unwrap_job_error::<E>)?;
        match value.downcast() {
            Ok(value) => Ok(*value),
            Err(_) => Err(StoreError::internal("a read was answered with another's value").into()),
        }
    }

    pub async fn stage_blob(&self, bytes: Vec<u8>) -> Result<StagedBlob> {
        Arc::clone(&self.0).stage_blob(bytes).await
    }

    pub fn watch_commits(&self) -> watch::Receiver<u64> {
        self.0.watch_commits()
    }
}

fn unwrap_job_error<E: From<StoreError> + 'static>(refusal: StoreJobError) -> E {
    match refusal {
        StoreJobError::Store(error) => error.into(),
        StoreJobError::Caller(error) => match error.downcast::<E>() {
            Ok(error) => *error,
            Err(_) => StoreError::internal("a job was refused with another's error").into(),
        },
    }
}

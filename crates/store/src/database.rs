//! An open database of any engine, implementing the engine's `Store` port.

use std::fmt::Debug;
use std::sync::Arc;

use cleveragents_ports::blobs::{INLINE_MAXIMUM, Staging};
use cleveragents_ports::maintenance::Engine;
use cleveragents_ports::store::{ReadJob, StoreFuture, StoreJobError, WriteJob};
use cleveragents_ports::{
    BlobHash, Clock, Result, StagedBlob, Store, StoreError, StoreHandle, StoreOperation,
};
use tokio::sync::watch;

use crate::blob_files::BlobFiles;
use crate::directory::DataDirectory;
use crate::postgres::Postgres;
use crate::presence::ProcessPresence;
use crate::queue::{TaskFn, TaskOutput, TransactionMode};
use crate::session::{StoreSession, put_chunks, run_once};
use crate::sqlite::Sqlite;

/// The common interface of the engines: they run tasks in transactions on their own threads.
pub(crate) trait StoreBackend: Send + Sync + Debug {
    fn submit(&self, mode: TransactionMode, work: TaskFn)
    -> StoreFuture<TaskOutput, StoreJobError>;

    /// The location of the data, for messages.
    fn location(&self) -> String;

    /// Starts listening for commits of other processes, if this engine supports it.
    fn listen(&self) {}
}

#[derive(Debug, Clone)]
pub struct StoreOptions {
    pub directory: DataDirectory,
    pub presence: Arc<ProcessPresence>,
    pub clock: Arc<dyn Clock>,
    /// Describes this process to other processes that wait for its locks.
    pub command: String,
}

/// An open database. Dropping it waits for tasks that were already submitted.
#[derive(Debug)]
pub struct Database {
    pub(crate) backend: Box<dyn StoreBackend>,
    pub(crate) engine: Engine,
    pub(crate) files: Option<BlobFiles>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) presence: Option<Arc<ProcessPresence>>,
    hints: Arc<watch::Sender<u64>>,
}

impl Database {
    /// Opens the SQLite file in the data directory.
    pub fn sqlite(options: &StoreOptions) -> Result<Arc<Self>> {
        let hints = new_hints();
        let StoreOptions {
            directory,
            presence,
            clock,
            ..
        } = options;
        let backend = Sqlite::open(directory, presence, clock, &hints)?;
        Ok(Arc::new(Self {
            backend: Box::new(backend),
            engine: Engine::Sqlite,
            files: Some(BlobFiles::new(directory.path())),
            clock: Arc::clone(clock),
            presence: Some(Arc::clone(presence)),
            hints,
        }))
    }

    /// Opens a PostgreSQL database.
    fn postgres(url: &str, options: &StoreOptions) -> Result<Arc<Self>> {
        let hints = new_hints();
        let backend = Postgres::open(url, &options.command, &hints)?;
        Ok(Arc::new(Self {
            backend: Box::new(backend),
            engine: Engine::Postgres,
            files: None,
            clock: Arc::clone(&options.clock),
            presence: Some(Arc::clone(&options.presence)),
            hints,
        }))
    }

    /// Opens PostgreSQL at `url`, or SQLite in the data directory if `url` is `None`.
    pub fn open(url: Option<&str>, options: &StoreOptions) -> Result<Arc<Self>> {
        match url {
            None => Self::sqlite(options),
            Some(url) if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
                Self::postgres(url, options)
            }
            Some(_) => Err(StoreError::Address {
                reason: "it must begin with postgresql://; leave it out for SQLite in the data \
                         directory"
                    .to_owned(),
            }),
        }
    }

    /// A database in memory; its contents are dropped with this value.
    pub fn memory(clock: Arc<dyn Clock>) -> Result<Arc<Self>> {
        let hints = new_hints();
        let backend = Sqlite::memory(&clock, &hints)?;
        Ok(Arc::new(Self {
            backend: Box::new(backend),
            engine: Engine::Memory,
            files: None,
            clock,
            presence: None,
            hints,
        }))
    }

    pub fn handle(self: &Arc<Self>) -> StoreHandle {
        StoreHandle::new(Arc::clone(self) as Arc<dyn Store>)
    }

    pub fn engine(&self) -> Engine {
        self.engine
    }

    pub fn location(&self) -> String {
        self.backend.location()
    }

    /// Runs internal work of the store in one transaction, without an operation id.
    pub(crate) async fn transact<T: Send + 'static>(
        &self,
        mode: TransactionMode,
        work: impl Fn(&mut StoreSession<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let work: TaskFn = Box::new(move |session| match work(session) {
            Ok(value) => Ok(Box::new(value) as TaskOutput),
            Err(error) => Err(StoreJobError::Store(error)),
        });
        match self.backend.submit(mode, work).await {
            Ok(value) => value
                .downcast()
                .map(|value| *value)
                .map_err(|_| StoreError::internal("a task was answered with another's value")),
            Err(StoreJobError::Store(error)) => Err(error),
            Err(StoreJobError::Caller(_)) => Err(StoreError::internal("a task refused itself")),
        }
    }

    async fn stage_large(self: Arc<Self>, hash: BlobHash, bytes: Vec<u8>) -> Result<Staging> {
        let bytes: Arc<[u8]> = bytes.into();
        if let Some(files) = self.files.clone() {
            let clock = Arc::clone(&self.clock);
            let staged = tokio::task::spawn_blocking(move || files.stage(&hash, &bytes, &*clock));
            staged.await.map_err(StoreError::internal)??;
            return Ok(Staging::File);
        }
        self.transact(TransactionMode::Write, move |session| {
            put_chunks(session, &hash, &bytes)
        })
        .await?;
        Ok(Staging::Chunks)
    }
}

/// Implemented with a shared handle so that returned futures can outlive the call.
impl Store for Database {
    fn write(
        &self,
        operation: StoreOperation,
        job: WriteJob,
    ) -> StoreFuture<String, StoreJobError> {
        let work: TaskFn = Box::new(move |session| {
            run_once(session, operation, &job).map(|json| Box::new(json) as TaskOutput)
        });
        let answer = self.backend.submit(TransactionMode::Write, work);
        Box::pin(async move {
            let output = answer.await?;
            output.downcast().map(|json| *json).map_err(|_| {
                StoreJobError::Store(StoreError::internal(
                    "a write was answered with another's value",
                ))
            })
        })
    }

    fn read(&self, job: ReadJob) -> StoreFuture<TaskOutput, StoreJobError> {
        let work: TaskFn = Box::new(move |session| job(session));
        self.backend.submit(TransactionMode::Read, work)
    }

    fn stage_blob(self: Arc<Self>, bytes: Vec<u8>) -> StoreFuture<StagedBlob> {
        Box::pin(async move {
            let hash = BlobHash::of(&bytes);
            let size = bytes.len() as u64;
            let staging = if bytes.len() <= INLINE_MAXIMUM {
                Staging::Inline(bytes.into())
            } else {
                self.stage_large(hash.clone(), bytes).await?
            };
            Ok(StagedBlob {
                hash,
                size,
                staging,
            })
        })
    }

    fn watch_commits(&self) -> watch::Receiver<u64> {
        self.backend.listen();
        self.hints.subscribe()
    }
}

fn new_hints() -> Arc<watch::Sender<u64>> {
    Arc::new(watch::Sender::new(0))
}

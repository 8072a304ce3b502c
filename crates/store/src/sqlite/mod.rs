//! SQLite: one writer thread with group commit, separate readers, and file locks that let several
//! processes share one file fairly. Memory databases work the same with one connection and no file.

mod connection;
mod reader;
mod schema_lock;
mod writer;
mod writer_lock;

use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use cleveragents_ports::store::{StoreFuture, StoreJobError};
use cleveragents_ports::{Clock, Result, StoreError};
use tokio::sync::watch;

use crate::blob_files::BlobFiles;
use crate::database::StoreBackend;
use crate::directory::DataDirectory;
use crate::presence::ProcessPresence;
use crate::queue::{StoreTask, TaskFn, TaskOutput, TransactionMode, join_threads, submit};

pub(crate) use connection::SqliteConnection;
pub(crate) use schema_lock::{ExclusiveDatabase, SchemaLock, open_exclusive};

/// The number of reader threads per process.
const READERS: usize = 2;

/// An open SQLite database.
#[derive(Debug)]
pub(crate) struct Sqlite {
    writer: Option<Sender<StoreTask>>,
    /// `None` in memory, where reads use the writer's connection.
    readers: Option<Sender<StoreTask>>,
    reader_threads: Vec<JoinHandle<()>>,
    writer_thread: Option<JoinHandle<()>>,
    /// Held while the database is open; prevents a concurrent migration or restore.
    _schema: Option<SchemaLock>,
    path: Option<PathBuf>,
}

impl Sqlite {
    pub(crate) fn open(
        directory: &DataDirectory,
        presence: &ProcessPresence,
        clock: &Arc<dyn Clock>,
        hints: &Arc<watch::Sender<u64>>,
    ) -> Result<Self> {
        let path = directory.database();
        let (schema, first) = schema_lock::open_current(directory, presence, clock)?;
        let files = BlobFiles::new(directory.path());
        let (writer, tasks) = channel();
        let lock = writer_lock::WriterLock::open(directory)?;
        let write_thread = writer::SqliteWriter::new(path.clone(), Arc::clone(clock), lock)
            .with_files(files.clone())
            .spawn(tasks, Arc::clone(hints))?;
        let (readers, tasks) = channel();
        let tasks = Arc::new(Mutex::new(tasks));
        let mut reader_threads = Vec::new();
        let mut first = Some(first);
        for _ in 0..READERS {
            // The connection that checked the schema is reused by the first reader.
            let reader = reader::SqliteReader::new(path.clone(), Arc::clone(clock), files.clone());
            reader_threads.push(reader.spawn(Arc::clone(&tasks), first.take())?);
        }
        Ok(Self {
            writer: Some(writer),
            readers: Some(readers),
            reader_threads,
            writer_thread: Some(write_thread),
            _schema: Some(schema),
            path: Some(path),
        })
    }

    pub(crate) fn memory(clock: &Arc<dyn Clock>, hints: &Arc<watch::Sender<u64>>) -> Result<Self> {
        let connection = open_in_memory(clock)?;
        let (writer, tasks) = channel();
        let thread = writer::SqliteWriter::in_memory(connection, Arc::clone(clock))
            .spawn(tasks, Arc::clone(hints))?;
        Ok(Self {
            writer: Some(writer),
            readers: None,
            reader_threads: Vec::new(),
            writer_thread: Some(thread),
            _schema: None,
            path: None,
        })
    }
}

impl StoreBackend for Sqlite {
    fn submit(
        &self,
        mode: TransactionMode,
        work: TaskFn,
    ) -> StoreFuture<TaskOutput, StoreJobError> {
        let queue = match mode {
            TransactionMode::Read => self.readers.as_ref().or(self.writer.as_ref()),
            TransactionMode::Write => self.writer.as_ref(),
        };
        submit(queue, mode, work)
    }

    fn location(&self) -> String {
        match &self.path {
            Some(path) => path.display().to_string(),
            None => "memory".to_owned(),
        }
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        // Closing the queues ends the threads once they have run the submitted tasks. The writer
        // closes last and alone: if connections close at the same moment, none of them checkpoints
        // the write-ahead log into the database.
        self.readers = None;
        join_threads(self.reader_threads.drain(..));
        self.writer = None;
        join_threads(self.writer_thread.take().into_iter());
    }
}

/// A new database in memory, with the newest schema.
pub(crate) fn open_in_memory(clock: &Arc<dyn Clock>) -> Result<SqliteConnection> {
    let mut connection = SqliteConnection::in_memory(clock)?;
    schema_lock::migrate(&mut connection, "the database in memory")?;
    Ok(connection)
}

/// The version of the bundled SQLite.
pub fn version() -> &'static str {
    rusqlite::version()
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .map_err(|e| StoreError::unavailable(format!("no thread could be started: {e}")))
}

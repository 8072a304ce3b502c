//! The writer thread: group commit, one batch at a time across all processes.
//!
//! Each task runs in its own savepoint. A batch ends when the queue is empty, or after
//! [`BATCH_TASKS`] tasks or [`BATCH_TIME`]. Results are sent only after the commit, so a received
//! result means a durable write. A failed task rolls back only itself; a failed commit returns an
//! error to all tasks, and their operation ids make retries safe.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cleveragents_ports::store::StoreJobError;
use cleveragents_ports::{Clock, Result, StoreError};
use tokio::sync::watch;

use super::connection::SqliteConnection;
use super::writer_lock::WriterLock;
use crate::blob_files::BlobFiles;
use crate::queue::{StoreTask, TaskResult, TransactionMode};
use crate::session::StoreSession;

const BATCH_TASKS: usize = 128;
const BATCH_TIME: Duration = Duration::from_millis(5);

/// The path of the database, and the identity of the file when it was opened.
struct DatabaseLocation {
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

impl DatabaseLocation {
    fn current_identity(&self) -> Option<(u64, u64)> {
        let facts = std::fs::metadata(&self.path).ok()?;
        Some((facts.dev(), facts.ino()))
    }

    /// A write to a deleted or replaced file would be acknowledged and lost.
    fn check(&self) -> Result<()> {
        if self.identity.is_some() && self.identity == self.current_identity() {
            return Ok(());
        }
        Err(StoreError::Vanished {
            path: self.path.clone(),
        })
    }
}

pub(super) struct SqliteWriter {
    connection: Option<SqliteConnection>,
    /// `None` in memory.
    location: Option<DatabaseLocation>,
    lock: Option<Arc<WriterLock>>,
    files: Option<BlobFiles>,
    clock: Arc<dyn Clock>,
}

impl SqliteWriter {
    pub(super) fn new(path: PathBuf, clock: Arc<dyn Clock>, lock: WriterLock) -> Self {
        let mut location = DatabaseLocation {
            path,
            identity: None,
        };
        location.identity = location.current_identity();
        Self {
            connection: None,
            location: Some(location),
            lock: Some(Arc::new(lock)),
            files: None,
            clock,
        }
    }

    pub(super) fn with_files(self, files: BlobFiles) -> Self {
        Self {
            files: Some(files),
            ..self
        }
    }

    pub(super) fn in_memory(connection: SqliteConnection, clock: Arc<dyn Clock>) -> Self {
        Self {
            connection: Some(connection),
            location: None,
            lock: None,
            files: None,
            clock,
        }
    }

    pub(super) fn spawn(
        mut self,
        tasks: Receiver<StoreTask>,
        hints: Arc<watch::Sender<u64>>,
    ) -> Result<JoinHandle<()>> {
        super::spawn("store-writer", move || {
            while let Ok(first) = tasks.recv() {
                if self.run_batch(first, &tasks) {
                    hints.send_modify(|count| *count += 1);
                }
            }
        })
    }

    /// Runs `first` and the tasks queued after it; returns whether anything was committed.
    fn run_batch(&mut self, first: StoreTask, tasks: &Receiver<StoreTask>) -> bool {
        let mut done = Vec::new();
        let committed = self.commit_batch(first, tasks, &mut done);
        let written =
            committed.is_ok() && done.iter().any(|(task, outcome)| is_write(task, outcome));
        for (task, outcome) in done {
            match &committed {
                Ok(()) => task.send_result(outcome),
                // A task that failed by itself keeps its own error.
                Err(_) if outcome.is_err() => task.send_result(outcome),
                Err(error) => task.send_error(error.clone()),
            }
        }
        written
    }

    /// Runs a batch up to its commit. On an error nothing was committed, or the outcome is unknown;
    /// the connection is then reopened.
    fn commit_batch(
        &mut self,
        first: StoreTask,
        tasks: &Receiver<StoreTask>,
        done: &mut Vec<(StoreTask, TaskResult)>,
    ) -> Result<()> {
        let result = self.try_commit_batch(first, tasks, done);
        if result.is_err() {
            if let Some(connection) = self.connection.as_ref().filter(|c| c.in_transaction()) {
                // If the rollback fails too, closing the connection rolls back.
                let _ = connection.execute_cached("ROLLBACK");
            }
            if self.location.is_some() {
                self.connection = None;
            }
        }
        result
    }

    fn try_commit_batch(
        &mut self,
        first: StoreTask,
        tasks: &Receiver<StoreTask>,
        done: &mut Vec<(StoreTask, TaskResult)>,
    ) -> Result<()> {
        let lock = self.lock.clone();
        let turn = lock.as_deref().map(WriterLock::acquire).transpose();
        match turn.and_then(|turn| self.begin().map(|()| turn)) {
            // `_turn` holds the writer lock until the commit is done.
            Ok(_turn) => self
                .run_tasks(first, tasks, done)
                .and_then(|()| self.ensure_connected()?.execute_cached("COMMIT")),
            Err(error) => {
                let refused = Err(StoreJobError::Store(error.clone()));
                done.push((first, refused));
                Err(error)
            }
        }
    }

    fn begin(&mut self) -> Result<()> {
        if let Some(location) = &self.location {
            location.check()?;
        }
        // IMMEDIATE takes the write lock before the first task, so no task fails half-way for lack
        // of it.
        self.ensure_connected()?.execute_cached("BEGIN IMMEDIATE")
    }

    fn run_tasks(
        &mut self,
        first: StoreTask,
        tasks: &Receiver<StoreTask>,
        done: &mut Vec<(StoreTask, TaskResult)>,
    ) -> Result<()> {
        let started = Instant::now();
        let mut next = Some(first);
        while let Some(task) = next {
            let (outcome, intact) = self.run_in_savepoint(&task);
            done.push((task, outcome));
            intact?;
            let full = done.len() >= BATCH_TASKS || started.elapsed() >= BATCH_TIME;
            next = if full { None } else { tasks.try_recv().ok() };
        }
        Ok(())
    }

    /// Returns the task's outcome, and whether the batch's transaction is still open.
    fn run_in_savepoint(&mut self, task: &StoreTask) -> (TaskResult, Result<()>) {
        let files = self.files.clone();
        let connection = match self.ensure_connected() {
            Ok(connection) => connection,
            Err(error) => return (Err(StoreJobError::Store(error.clone())), Err(error)),
        };
        if let Err(error) = connection.execute_cached("SAVEPOINT task") {
            return (Err(StoreJobError::Store(error.clone())), Err(error));
        }
        let outcome = match task.mode {
            TransactionMode::Write => task.run(&mut StoreSession::new(connection, files.as_ref())),
            TransactionMode::Read => connection
                .read_only(|connection| {
                    task.run(&mut StoreSession::new(connection, files.as_ref()))
                })
                .unwrap_or_else(|error| Err(StoreJobError::Store(error))),
        };
        // On a full disk SQLite rolls the whole transaction back, so earlier tasks of the batch are
        // undone, too.
        if !connection.in_transaction() {
            let error = StoreError::unavailable("the database rolled the transaction back");
            return (outcome, Err(error));
        }
        let undone = match outcome {
            Ok(_) => Ok(()),
            Err(_) => connection.execute_cached("ROLLBACK TO task"),
        };
        let intact = undone.and_then(|()| connection.execute_cached("RELEASE task"));
        (outcome, intact)
    }

    fn ensure_connected(&mut self) -> Result<&mut SqliteConnection> {
        if let (None, Some(location)) = (&self.connection, &self.location) {
            self.connection = Some(SqliteConnection::writer(&location.path, &self.clock)?);
        }
        self.connection
            .as_mut()
            .ok_or_else(|| StoreError::internal("the database in memory is gone"))
    }
}

fn is_write(task: &StoreTask, outcome: &TaskResult) -> bool {
    task.mode == TransactionMode::Write && outcome.is_ok()
}

//! A thread of the pool: runs each task in one transaction, with retries.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use cleveragents_ports::store::StoreJobError;
use cleveragents_ports::{Result, StoreError};
use tokio::sync::watch;

use super::address::Address;
use super::connection::PostgresConnection;
use super::schema;
use crate::queue::{StoreTask, TaskResult, TransactionMode};
use crate::session::StoreSession;

/// The maximum number of retries after a conflict or a broken connection.
const MAX_RETRIES: u32 = 5;

pub(super) struct PostgresWorker {
    address: Arc<Address>,
    connection: Option<PostgresConnection>,
    commit_notifier: Sender<()>,
}

impl PostgresWorker {
    pub(super) fn new(address: Arc<Address>, commit_notifier: Sender<()>) -> Self {
        Self {
            address,
            connection: None,
            commit_notifier,
        }
    }

    pub(super) fn set_connection(&mut self, connection: Option<PostgresConnection>) {
        self.connection = connection;
    }

    pub(super) fn spawn(
        mut self,
        name: &str,
        tasks: Arc<Mutex<Receiver<StoreTask>>>,
        hints: Arc<watch::Sender<u64>>,
    ) -> Result<JoinHandle<()>> {
        super::spawn(name, move || {
            loop {
                // One idle worker waits in `recv` with the mutex held; the others wait for the
                // mutex, so each task goes to exactly one.
                let next = tasks.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Ok(task) = next else { return };
                let outcome = self.run(&task);
                if task.mode == TransactionMode::Write && outcome.is_ok() {
                    hints.send_modify(|count| *count += 1);
                    // If the notifier is gone, other processes notice the commit by polling.
                    let _ = self.commit_notifier.send(());
                }
                task.send_result(outcome);
            }
        })
    }

    /// Runs a task until it has an outcome. A commit whose acknowledgement was lost is retried too:
    /// the operation id then finds the first result if there was one.
    fn run(&mut self, task: &StoreTask) -> TaskResult {
        let mut repeats = 0;
        loop {
            let error = match self.attempt(task) {
                Ok(outcome) => return outcome,
                Err(error) => error,
            };
            let broken = self
                .connection
                .as_ref()
                .is_none_or(PostgresConnection::is_closed);
            if broken {
                self.connection = None;
            }
            // A lock timeout was already waited for, so only `Unavailable` is retried.
            if repeats == MAX_RETRIES || !matches!(error, StoreError::Unavailable { .. }) {
                return Err(StoreJobError::Store(error));
            }
            repeats += 1;
            std::thread::sleep(retry_delay(repeats, broken));
        }
    }

    /// Runs one attempt. Returns the task's outcome, or the error that prevented one.
    fn attempt(&mut self, task: &StoreTask) -> Result<TaskResult> {
        if self.connection.is_none() {
            self.connection = Some(schema::open_current(&self.address)?);
        }
        let Some(connection) = self.connection.as_mut() else {
            return Err(StoreError::internal("no connection"));
        };
        connection.batch(match task.mode {
            // Writers are ordered by row locks; a read uses one snapshot throughout.
            TransactionMode::Write => "BEGIN ISOLATION LEVEL READ COMMITTED",
            TransactionMode::Read => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        })?;
        let mut session = StoreSession::new(connection, None);
        let outcome = task.run(&mut session);
        // A clone, because the session borrows the connection that ends the transaction.
        let failure = session.failure().cloned();
        let end = match (task.mode, &outcome) {
            (TransactionMode::Write, Ok(_)) => connection.batch("COMMIT"),
            // A failed task is rolled back even if its statements succeeded: it must leave nothing
            // behind.
            _ => connection.batch("ROLLBACK"),
        };
        // A temporary failure, even one that the closure swallowed, is a failed attempt rather than
        // the task's outcome.
        match failure {
            Some(error) if error.is_temporary() => Err(error),
            _ => end.map(|()| outcome),
        }
    }
}

/// Longer after a broken connection, because the server may be restarting. Jitter prevents
/// competing transactions from colliding again.
fn retry_delay(repeats: u32, broken: bool) -> Duration {
    let base = if broken { 100 } else { 4 };
    let span = (base << repeats.min(5)).min(2000);
    let jitter = RandomState::new().build_hasher().finish() % span;
    Duration::from_millis(span / 2 + jitter)
}

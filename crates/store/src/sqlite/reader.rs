//! Reader threads: each has its own connection and snapshot and never waits for a writer.

use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use cleveragents_ports::{Clock, Result};

use super::connection::SqliteConnection;
use crate::blob_files::BlobFiles;
use crate::queue::{StoreTask, TaskResult};
use crate::session::StoreSession;

pub(super) struct SqliteReader {
    path: PathBuf,
    clock: Arc<dyn Clock>,
    files: BlobFiles,
    connection: Option<SqliteConnection>,
}

impl SqliteReader {
    pub(super) fn new(path: PathBuf, clock: Arc<dyn Clock>, files: BlobFiles) -> Self {
        Self {
            path,
            clock,
            files,
            connection: None,
        }
    }

    /// Runs `tasks` from the queue shared by all readers, starting with the connection `first`.
    pub(super) fn spawn(
        mut self,
        tasks: Arc<Mutex<Receiver<StoreTask>>>,
        first: Option<SqliteConnection>,
    ) -> Result<JoinHandle<()>> {
        self.connection = first;
        super::spawn("store-reader", move || {
            loop {
                let next = tasks.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Ok(task) = next else { return };
                match self.run(&task) {
                    Ok(outcome) => task.send_result(outcome),
                    Err(error) => {
                        // Its transaction may still be open; a new connection starts clean.
                        self.connection = None;
                        task.send_error(error);
                    }
                }
            }
        })
    }

    fn run(&mut self, task: &StoreTask) -> Result<TaskResult> {
        if self.connection.is_none() {
            self.connection = Some(SqliteConnection::reader(&self.path, &self.clock)?);
        }
        let Some(connection) = self.connection.as_mut() else {
            return Err(cleveragents_ports::StoreError::internal("no connection"));
        };
        // Without a transaction each statement would see its own snapshot.
        connection.execute_cached("BEGIN")?;
        let outcome = task.run(&mut StoreSession::new(connection, Some(&self.files)));
        connection.execute_cached("ROLLBACK")?;
        Ok(outcome)
    }
}

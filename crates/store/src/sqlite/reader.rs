//! Reader threads: each with its own connection and snapshot, never waiting for a writer.

use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use cleveragents_engine::ports::{Clock, Result};

use super::connection::Connection;
use crate::blob_files::BlobFiles;
use crate::queue::{Outcome, Task};
use crate::session::Session;

pub(super) struct Reader {
    path: PathBuf,
    clock: Arc<dyn Clock>,
    files: BlobFiles,
    connection: Option<Connection>,
}

impl Reader {
    pub(super) fn new(path: PathBuf, clock: Arc<dyn Clock>, files: BlobFiles) -> Self {
        Self {
            path,
            clock,
            files,
            connection: None,
        }
    }

    /// Works off `tasks`, which the readers share, beginning with `first` as its connection.
    pub(super) fn spawn(
        mut self,
        tasks: Arc<Mutex<Receiver<Task>>>,
        first: Option<Connection>,
    ) -> Result<JoinHandle<()>> {
        self.connection = first;
        super::spawn("store-reader", move || {
            loop {
                let next = tasks.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Ok(task) = next else { return };
                match self.run(&task) {
                    Ok(outcome) => task.answer(outcome),
                    Err(error) => {
                        self.connection = None;
                        task.refuse(error);
                    }
                }
            }
        })
    }

    fn run(&mut self, task: &Task) -> Result<Outcome> {
        if self.connection.is_none() {
            self.connection = Some(Connection::reader(&self.path, &self.clock)?);
        }
        let Some(connection) = self.connection.as_mut() else {
            return Err(cleveragents_engine::StoreError::internal("no connection"));
        };
        connection.step("BEGIN")?;
        let outcome = task.run(&mut Session::new(connection, Some(&self.files)));
        connection.step("ROLLBACK")?;
        Ok(outcome)
    }
}

//! PostgreSQL: a small pool of threads with the synchronous client, one transaction per write,
//! retried where the server reports a retryable error.

mod address;
mod connection;
mod notifier;
mod schema;
mod tls;
mod worker;

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, Once};
use std::thread::JoinHandle;

use cleveragents_ports::store::{StoreFuture, StoreJobError};
use cleveragents_ports::{Result, StoreError};
use tokio::sync::watch;

use crate::database::StoreBackend;
use crate::queue::{StoreTask, TaskFn, TaskOutput, TransactionMode, join_threads, submit};

pub(crate) use address::Address;
pub(crate) use connection::PostgresConnection;
pub(crate) use schema::open_exclusive;

const WRITERS: usize = 4;
const READERS: usize = 2;

/// An open PostgreSQL database.
pub(crate) struct Postgres {
    address: Arc<Address>,
    writers: Option<Sender<StoreTask>>,
    readers: Option<Sender<StoreTask>>,
    threads: Vec<JoinHandle<()>>,
    hints: Arc<watch::Sender<u64>>,
    listening: Once,
}

impl std::fmt::Debug for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Postgres")
            .field(&self.address.location())
            .finish()
    }
}

impl Postgres {
    /// Connects, creates or migrates the schema, and starts the threads.
    pub(crate) fn open(url: &str, command: &str, hints: &Arc<watch::Sender<u64>>) -> Result<Self> {
        let address = Arc::new(Address::parse(url, command)?);
        let first = connect_current(&address)?;
        let (dirty, marks) = channel();
        let notifier = notifier::spawn_notifier(Arc::clone(&address), marks)?;
        let mut threads = vec![notifier];
        let mut first = Some(first);
        let mut start = |name: &str, count: usize| -> Result<Sender<StoreTask>> {
            let (queue, tasks) = channel();
            let tasks = Arc::new(Mutex::new(tasks));
            for _ in 0..count {
                let mut worker = worker::PostgresWorker::new(Arc::clone(&address), dirty.clone());
                // The connection that checked the schema is reused by the first worker.
                worker.set_connection(first.take());
                threads.push(worker.spawn(name, Arc::clone(&tasks), Arc::clone(hints))?);
            }
            Ok(queue)
        };
        let readers = start("store-reader", READERS)?;
        let writers = start("store-writer", WRITERS)?;
        Ok(Self {
            address,
            writers: Some(writers),
            readers: Some(readers),
            threads,
            hints: Arc::clone(hints),
            listening: Once::new(),
        })
    }
}

impl StoreBackend for Postgres {
    fn submit(
        &self,
        mode: TransactionMode,
        work: TaskFn,
    ) -> StoreFuture<TaskOutput, StoreJobError> {
        let queue = match mode {
            TransactionMode::Read => self.readers.as_ref(),
            TransactionMode::Write => self.writers.as_ref(),
        };
        submit(queue, mode, work)
    }

    fn location(&self) -> String {
        self.address.location()
    }

    fn listen(&self) {
        // Only processes that follow the journal need notifications of other processes' commits.
        self.listening.call_once(|| {
            notifier::spawn_listener(Arc::clone(&self.address), Arc::downgrade(&self.hints));
        });
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Closing the queues ends the workers after the submitted tasks; their senders then end the
        // notifier.
        self.writers = None;
        self.readers = None;
        join_threads(self.threads.drain(..));
    }
}

/// Connects to a current schema. The client must not be used on a thread of the async runtime, so
/// even the first connection is made on a thread of the store.
fn connect_current(address: &Arc<Address>) -> Result<PostgresConnection> {
    let address = Arc::clone(address);
    let thread = spawn("store-opener", move || schema::open_current(&address))?;
    thread
        .join()
        .unwrap_or_else(|_| Err(StoreError::internal("opening the database panicked")))
}

fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .map_err(|e| StoreError::unavailable(format!("no thread could be started: {e}")))
}

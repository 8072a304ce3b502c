//! The task queue of the store's threads: callers submit tasks and await results.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

use cleveragents_ports::store::{StoreFuture, StoreJobError};
use cleveragents_ports::{Result, StoreError};
use tokio::sync::oneshot;

use crate::session::StoreSession;

pub(crate) type TaskOutput = Box<dyn Any + Send>;
/// Work inside one transaction; may run more than once.
pub(crate) type TaskFn =
    Box<dyn Fn(&mut StoreSession<'_>) -> Result<TaskOutput, StoreJobError> + Send>;
pub(crate) type TaskResult = Result<TaskOutput, StoreJobError>;

/// Whether a task may change anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransactionMode {
    Write,
    Read,
}

/// A queued task with the channel for its result.
pub(crate) struct StoreTask {
    pub(crate) mode: TransactionMode,
    pub(crate) work: TaskFn,
    reply: oneshot::Sender<TaskResult>,
}

impl StoreTask {
    /// Runs the work. A panic in it becomes an error of that task only.
    pub(crate) fn run(&self, session: &mut StoreSession<'_>) -> TaskResult {
        // Unwind safety is asserted because the transaction of a panicking task is rolled back, so
        // no half-made state is seen.
        let outcome = catch_unwind(AssertUnwindSafe(|| (self.work)(session)));
        let outcome = outcome.unwrap_or_else(|_| {
            let error = StoreError::internal("a transaction panicked and was undone");
            Err(StoreJobError::Store(error))
        });
        // The closure may have swallowed the error of a statement; its work must not be committed.
        match session.failure() {
            Some(failure) if outcome.is_ok() => Err(StoreJobError::Store(failure.clone())),
            _ => outcome,
        }
    }

    /// Sends the result to the caller, or drops it if the caller no longer waits. The work closure
    /// is dropped first, so that a caller that then drops the store holds the last reference.
    pub(crate) fn send_result(self, outcome: TaskResult) {
        let Self { work, reply, .. } = self;
        drop(work);
        // The caller may have given up waiting; the write is durable all the same.
        let _ = reply.send(outcome);
    }

    pub(crate) fn send_error(self, error: StoreError) {
        self.send_result(Err(StoreJobError::Store(error)));
    }
}

/// Joins threads of the store. If the caller is gone, a task may hold the last reference to the
/// store, which is then dropped on the thread that ran the task. Joining itself would deadlock, so
/// then nothing is joined; all threads end by themselves.
pub(crate) fn join_threads(threads: impl Iterator<Item = JoinHandle<()>>) {
    let threads: Vec<_> = threads.collect();
    let current = std::thread::current().id();
    if threads.iter().all(|thread| thread.thread().id() != current) {
        for thread in threads {
            let _ = thread.join();
        }
    }
}

/// Sends `work` to `queue` and awaits its result.
pub(crate) fn submit(
    queue: Option<&Sender<StoreTask>>,
    mode: TransactionMode,
    work: TaskFn,
) -> StoreFuture<TaskOutput, StoreJobError> {
    let (reply, answer) = oneshot::channel();
    let task = StoreTask { mode, work, reply };
    // A task that could not be sent is dropped, which closes the channel of the receiver below.
    let _ = queue.map(|queue| queue.send(task));
    Box::pin(async move {
        answer.await.unwrap_or_else(|_| {
            let error = StoreError::unavailable("the store was closed before it answered");
            Err(StoreJobError::Store(error))
        })
    })
}
